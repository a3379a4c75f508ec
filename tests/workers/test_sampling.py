import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.archive import ARCHIVE
from features.errors import Misdeclared
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.sampling import (
    Sample,
    infer_fields,
    infer_key,
    infer_time,
    left_out,
    read_sample,
    write_pipeline,
)

ROWS: list[dict[str, Any]] = [
    {"id": f"e{i}", "card": {"id": f"c{i % 4}", "limit": 10.5}, "amount": i if i % 2 else i + 0.5, "ok": True,
     "at": f"2024-01-01T00:00:{i:02d}Z", "note": None if i % 3 else "x", "tags": ["a"], "mixed": i if i % 2 else "x"}
    for i in range(40)
]  # fmt: skip


def load(text: str, tmp_path: Path, name: str) -> object:
    (tmp_path / f"{name}.py").write_text(text)
    return catalog.load(str(tmp_path / f"{name}.py"))


def test_fields_types_time_and_key_are_inferred() -> None:
    sample = Sample(rows=ROWS)
    fields = {field.name: field for field in infer_fields(sample)}
    assert {name: field.type for name, field in fields.items()} == {
        "id": str, "card_id": str, "card_limit": float, "amount": float, "ok": bool, "at": str, "note": str,
    }  # fmt: skip
    assert [name for name, field in fields.items() if field.optional] == ["note"]
    time, unit = infer_time(sample, list(fields.values()))
    assert (time.name, unit) == ("at", "iso8601")
    assert infer_key(sample, list(fields.values()), time).name == "card_id"


def test_the_kafka_key_tells_the_partition_key() -> None:
    sample = Sample(rows=ROWS, keys=[row["id"].encode() for row in ROWS])
    fields = infer_fields(sample)
    assert infer_key(sample, fields, infer_time(sample, fields)[0]).name == "id"


@pytest.mark.parametrize(
    ("value", "unit"),
    [(1.7e9, "s"), (1_700_000_000, "s"), (1_700_000_000_000, "ms"), (1_700_000_000_000_000, "us")],
)
def test_the_unit_of_a_numeric_time_is_told_by_its_size(value: float, unit: str) -> None:
    sample = Sample(rows=[{"k": "a", "v": 3, "time": value}])
    assert infer_time(sample, infer_fields(sample))[1] == unit


def test_what_is_written_is_a_pipeline_that_can_be_loaded(tmp_path: Path) -> None:
    for name, rows in (("full", ROWS), ("small", [{"who": "a", "t": 1_700_000_000}])):
        pipeline = load(
            write_pipeline(name, f"{name}-events", Sample(rows=rows)), tmp_path, f"sampled_{name}"
        )
        assert pipeline.name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    ["{}\n".join(json.dumps(row) for row in ROWS[:1]), json.dumps(ROWS), "\n".join(map(json.dumps, ROWS))],
)
def test_json_lines_and_arrays_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "sample.json").write_text(text)
    assert read_sample(tmp_path / "sample.json").rows[0] == ROWS[0]


def test_a_sample_that_is_no_use_is_refused_saying_why(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"a":1}\n[2]\n')
    with pytest.raises(Misdeclared, match="row 2 is no JSON object"):
        read_sample(tmp_path / "bad.jsonl")
    with pytest.raises(Misdeclared, match="No field of the sample is a time"):
        write_pipeline("x", "x", Sample(rows=[{"a": 1}]))
    with pytest.raises(Misdeclared, match="no rows"):
        write_pipeline("x", "x", Sample(rows=[]))


@pytest.mark.parametrize(
    "name",
    ["'", "grüße", "{braces}", "dev.temp", "", "0", "$", "a[0]", "' if print('no') else '"],
)
def test_names_of_the_sample_are_data(tmp_path: Path, name: str) -> None:
    rows = [{"id": f"a{i % 7}", "ts": 1_710_000_000 + i, name: 1.5} for i in range(40)]
    pipeline = load(write_pipeline("written", "events", Sample(rows=rows)), tmp_path, "written")
    assert isinstance(pipeline, Pipeline)
    assert name in {field.json_path[0] for field in pipeline.source.schema.fields}


@pytest.mark.parametrize(
    "name", ['p" if print("no") else "p', "back\\slash", "new\nline", 'quo"te', "tail\\"]
)
def test_a_name_that_cannot_be_read_is_left_out_and_is_data_too(tmp_path: Path, name: str) -> None:
    rows = [{"id": f"a{i % 7}", "ts": 1_710_000_000 + i, name: 1.5} for i in range(40)]
    (said,) = left_out(Sample(rows=rows))
    assert said.endswith("a name with a quote, backslash or control character can't be read")
    assert isinstance(
        load(write_pipeline("written", "events", Sample(rows=rows)), tmp_path, "unread"), Pipeline
    )


def test_what_is_left_out_is_said_in_the_file() -> None:
    rows = [
        {"id": "a", "t": 1_700_000_000, "dev.temp": 1, "a-b": 1, "a_b": 2, "big": 2**70, "list": [1], "none": None, "": 1, "m": i or "x"}
        for i in range(3)
    ]  # fmt: skip
    said = left_out(Sample(rows=rows))
    assert [line.partition(":")[0] for line in said] == [
        '"a_b"', '"big"', '"list"', '"none"', '"m"',
    ]  # fmt: skip
    text = write_pipeline("p", "t", Sample(rows=rows))
    assert all(f"# left out: {line}\n" in text for line in said)


def test_the_partition_key_is_rather_what_is_called_so() -> None:
    rows = [
        {"id": f"e{i}", "t": 1_700_000_000, "amount": f"{i % 4}.50", "user": {"id": i % 4}} for i in range(40)
    ]
    sample = Sample(rows=rows)
    fields = infer_fields(sample)
    assert infer_key(sample, fields, infer_time(sample, fields)[0]).name == "user_id"


def test_a_field_with_a_name_that_every_row_has_gets_a_feature_of_another_name(tmp_path: Path) -> None:
    rows = [
        {"id": f"a{i % 7}", "ts": 1_710_000_000 + i, "offset": i * 0.5, "label": "xy"[i % 2], "from": "z"}
        for i in range(40)
    ]
    pipeline = load(write_pipeline("reserved", "events", Sample(rows=rows)), tmp_path, "reserved")
    assert isinstance(pipeline, Pipeline)
    assert {"offset_value", "label_value", "from"} < set(
        pipeline.engine.float_columns + pipeline.engine.category_columns
    )


def test_timestamps_of_a_table_become_numbers_and_a_raw_archive_is_read(tmp_path: Path) -> None:
    when = pa.array([datetime(2024, 5, 1, 12, 0, second, 500, UTC) for second in range(5)])
    pq.write_table(pa.table({"who": list("abaab"), "when": when}), tmp_path / "typed.parquet")
    typed = read_sample(tmp_path / "typed.parquet")
    assert infer_time(typed, infer_fields(typed))[1] == "ms"
    raw = {"partition": [0] * 2, "offset": [0, 1], "timestamp": [1, 2], "key": [b"a", b"b"]}
    pq.write_table(pa.table({**raw, "value": [b'{"x":1}', None]}, schema=ARCHIVE), tmp_path / "raw.parquet")
    assert read_sample(tmp_path / "raw.parquet") == Sample(rows=[{"x": 1}], keys=[b"a"])
    (tmp_path / "no.parquet").write_bytes(b"no")
    with pytest.raises(Misdeclared, match="is no Parquet file"):
        read_sample(tmp_path / "no.parquet")

import dataclasses
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from features.codecs.arrow import ArrowCodec
from features.errors import Misdeclared
from features.expressions import col
from features.featureset import FeatureSet
from features.kinds import count
from features.recorded import BATCH_ROWS, RecordedFiles, RecordedTable
from features.replay import Decoder
from features.schema import Field
from features.windows import Window
from models.labels import Labels
from pipelines.datasets import nycflights13
from pipelines.flights import pipeline as flights
from pipelines.pipeline import Pipeline, Source
from pipelines.replay import replay, replayed, row_schema, rows_of, write_rows
from tests.features import streams

LABELLED = Pipeline(
    name="labelled",
    source=Source(topic="labelled", schema=streams.schema(), partitions=2),
    features=[FeatureSet(key="card", features={"n": count(window=Window(timedelta(seconds=10)))})],
    score_when=col("kind") == "buy",
    labels=Labels(
        key="shop", when=col("kind") == "refund", value=col("amount"), horizon=timedelta(seconds=30)
    ),
    model="labelled",
)

UNLABELLED = dataclasses.replace(LABELLED, labels=None, score_when=None)


def typed(n: int, cards: int = 50, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({
        "card": pa.array([f"card-{i}" for i in random.integers(0, cards, n)]),
        "shop": pa.array([f"case-{i}" for i in random.integers(0, max(1, n // 3), n)]),
        "ts": 1_700_000_000_000 + np.arange(n) * 20 + random.integers(-15_000, 1000, n),
        "amount": random.integers(0, 100, n).astype(float),
        "kind": pa.array(np.where(random.random(n) < 0.5, "buy", "refund")),
    })  # fmt: skip


@cache
def january() -> pa.Table:
    events = nycflights13.events()
    until = datetime(2013, 1, 20, tzinfo=UTC).timestamp() * 1000
    return events.filter(pc.less(events["time"], int(until)))


def test_flights_on_two_processes_have_the_bits_and_labels_of_one() -> None:
    rows = replay(flights, january())
    assert rows.num_rows > 10_000
    told = Counter[str]()
    again = replay(flights, january(), lambda events: told.update(events=events), processes=2)
    exact = [
        field.name for field in rows.schema if field.type != pa.float32()
    ]  # NaN is not NaN; digests have the floats
    assert again.select(exact).equals(rows.select(exact))
    assert told["events"] == january().num_rows


def test_each_row_has_the_label_that_brute_force_finds_and_batches_do_not_matter() -> None:
    events = typed(BATCH_ROWS + 3000)
    rows = pa.Table.from_batches(replayed(LABELLED, RecordedTable(events)))
    refunds: dict[str, list[tuple[int, float]]] = {}
    for shop, ts, amount, kind in zip(
        *(events[n].to_pylist() for n in ("shop", "ts", "amount", "kind")), strict=True
    ):
        if kind == "refund":
            refunds.setdefault(shop, []).append((ts, amount))
    wanted = [
        next(
            (v for t, v in sorted(refunds.get(shop, []), key=lambda each: each[0]) if ts <= t <= ts + 30_000),
            None,
        )
        for shop, ts in zip(rows["label_key"].to_pylist(), rows["event_time"].to_pylist(), strict=True)
    ]
    assert rows["label"].to_pylist() == wanted
    ordered = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert rows["partition"].to_pylist() != ordered["partition"].to_pylist()
    assert replay(LABELLED, events).equals(ordered.cast(rows.schema))
    assert rows["key"].to_pylist() == events.filter(pc.equal(events["kind"], "buy"))["card"].to_pylist()


def test_a_column_that_is_not_needed_is_read_only_if_it_may_hold_nulls(tmp_path: Path) -> None:
    pipeline = UNLABELLED
    table, path = typed(1000), tmp_path / "events.parquet"
    pq.write_table(table, path)
    assert (
        write_rows(replayed(pipeline, RecordedFiles.at(path)), row_schema(pipeline), tmp_path / "rows")
        == 1000
    )
    holes = pa.array(["buy", None] * 500)
    pq.write_table(table.set_column(4, "kind", holes), path)
    malformed = Counter[str]()
    rows = replayed(pipeline, RecordedFiles.at(path), malformed=malformed)
    assert write_rows(rows, row_schema(pipeline), tmp_path / "rows") == 500
    assert malformed == {"missing_field": 500}


UNUSED = [
    (Field(name="x", type=float), pa.array([1.0, math.nan]), 1),
    (Field(name="x", type=float), pa.array([1.0, 2.0]), 2),
    (Field(name="x", type=float, optional=True), pa.array([math.nan, 2.0]), 2),
    (Field(name="x", type=float, optional=True), pa.array([1.0, -math.inf]), 1),
    (Field(name="x", type=float, optional=True), pa.array([1.0, math.inf], pa.float16()), 1),
    (Field(name="x", type=int, optional=True), pa.array([1, 2**63], pa.uint64()), 1),
    (Field(name="x", type=int, optional=True, quoted=True), pa.array(["1", "one"]), 1),
    (Field(name="x", type=int, optional=True), pa.array(["1", "1" + "0" * 20]).cast(pa.decimal128(30, 0)), 1),
    (Field(name="x", type=str, optional=True), pa.array(["a", "b" * 2**24]), 1),
    (Field(name="x", type=str), pa.array(["a", None]).dictionary_encode(), 1),
    (Field(name="x", type=str, path="s.x"), pa.array([{"x": "a"}, {"x": None}]), 1),
    (Field(name="x", type=bool, path="s[1]", optional=True), pa.array([[True], None]), 2),
]
"""A field that nothing needs, values of it, and how many rows are well-formed."""


@pytest.mark.parametrize(("field", "values", "rows"), UNUSED, ids=str)
def test_a_value_that_nothing_needs_makes_its_row_malformed_as_if_it_were_needed(
    field: Field, values: pa.Array, rows: int, tmp_path: Path
) -> None:
    schema = dataclasses.replace(streams.schema(), fields=[*streams.schema().fields, field])
    pipeline = dataclasses.replace(UNLABELLED, source=Source(topic="x", schema=schema, partitions=2))
    table = typed(2).append_column("s" if field.path else "x", values)
    assert replay(pipeline, table).num_rows == rows
    decoded = ArrowCodec(schema).decode(table)
    assert len(decoded.malformed) == 2 - rows
    pq.write_table(table, tmp_path / "events.parquet")
    assert sum(map(len, replayed(pipeline, RecordedFiles.at(tmp_path)))) == rows


def test_a_null_in_a_dictionary_that_nothing_needs_makes_its_row_malformed() -> None:
    kinds = pa.DictionaryArray.from_arrays([0, 1], pa.array(["buy", None]))
    assert replay(UNLABELLED, typed(2).set_column(4, "kind", kinds)).num_rows == 1


def test_a_row_without_a_label_is_negative_only_once_its_horizon_has_closed() -> None:
    assert LABELLED.labels is not None
    labels = dataclasses.replace(LABELLED.labels, without="negative")
    pipeline = dataclasses.replace(LABELLED, labels=labels)
    events = typed(BATCH_ROWS + 3000)
    newest = max(events["ts"].to_pylist())
    rows = pa.Table.from_batches(replayed(pipeline, RecordedTable(events)))
    known = pa.Table.from_batches(replayed(LABELLED, RecordedTable(events)))["label"].to_pylist()
    assert rows["label"].to_pylist() == [
        (0.0 if label is None else label) if time + 30_000 < newest else None
        for time, label in zip(rows["event_time"].to_pylist(), known, strict=True)
    ]
    assert 0 < rows["label"].null_count < len(rows) // 2
    decoder = Decoder(pipeline.source.schema, RecordedTable(events), events.column_names, 2)
    assert rows_of(pipeline, decoder.batches()).equals(replay(pipeline, events))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (typed(5).drop(["ts"]), r"events.parquet: The table has no column 'ts'; it has 'card'"),
        (typed(5).set_column(3, "amount", pa.array(["1"] * 5)), r"events.parquet: Column 'amount' is string.*cast it"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_named_with_its_column(
    table: pa.Table, message: str, tmp_path: Path
) -> None:
    pq.write_table(table, tmp_path / "events.parquet")
    with pytest.raises(Misdeclared, match=message):
        list(replayed(LABELLED, RecordedFiles.at(tmp_path)))


def test_a_file_of_rows_is_there_when_it_is_whole_or_as_it_was(tmp_path: Path) -> None:
    rows = replay(LABELLED, typed(100))

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()
        raise Misdeclared("no more")

    with pytest.raises(Misdeclared, match="no more"):
        write_rows(broken(), rows.schema, tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())
    write_rows(iter(rows.to_batches()), rows.schema, tmp_path / "rows.parquet")
    with pytest.raises(Misdeclared, match="no more"):
        write_rows(broken(), rows.schema, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").equals(rows)
    assert len(list(tmp_path.iterdir())) == 1


PEAK = """
import sys
from pathlib import Path
from features.recorded import RecordedFiles
from pipelines.replay import replayed, row_schema, write_rows
from tests.pipelines.test_replay import UNLABELLED as pipeline
rows = write_rows(replayed(pipeline, RecordedFiles.at(sys.argv[1])), row_schema(pipeline), Path(sys.argv[2]))
status = Path("/proc/self/status").read_text()  # ru_maxrss would be that of who started this process
print(status.partition("VmHWM:")[2].split()[0])
"""


def peak_megabytes(source: Path, target: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, source, target], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    for name, repeats in (("small", 15), ("large", 30)):  # with the smaller one keys come and go already
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", typed(1).schema) as writer:
            for part in range(repeats):
                table = typed(100_000, seed=part)
                table = table.set_column(2, "ts", pc.add(table["ts"], part * 2_000_000))
                writer.write_table(table)
    small, large = (
        peak_megabytes(tmp_path / f"{name}.parquet", tmp_path / "rows.parquet") for name in ("small", "large")
    )
    assert large - small < 20, f"{small:.0f} MB, and {large:.0f} MB for 1,500,000 events more"

import itertools
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import murmur2
from hypothesis import given
from hypothesis import strategies as st

from features.codecs.judge import LONGEST_RECORD
from features.errors import Misdeclared
from features.recorded import BATCH_ROWS, Placer, RecordedFiles, RecordedTable, in_log_order, read_table
from features.schema import Field

USER = Field(name="user", type=str)


def events(keys: list[bytes | None]) -> pa.Table:
    values = pa.array([b"%d" % i for i in range(len(keys))], pa.binary())
    return pa.table({"key": pa.array(keys, pa.binary()), "value": values, "time": np.arange(len(keys))})


def placed(table: pa.Table, key: Field, partitions: int) -> tuple[list[int], list[int]]:
    """Partitions and offsets, batch after batch."""
    placer = Placer(table.schema, key, partitions)
    parts = [placer.place(batch) for batch in table.to_batches()]
    return [int(p) for part, _ in parts for p in part], [int(o) for _, part in parts for o in part]


@given(st.lists(st.none() | st.binary(max_size=20), max_size=40), st.integers(1, 7), st.integers(0, 3))
def test_events_stand_where_publishing_puts_them_in_their_order(
    keys: list[bytes | None], partitions: int, skipped: int
) -> None:
    table = pa.concat_tables([events(keys).slice(skipped, 9), events(keys).slice(skipped + 9)])
    places = [0 if key is None else murmur2(key, partitions) for key in keys[skipped:]]
    counted = [places[:i].count(place) for i, place in enumerate(places)]
    assert placed(table, USER, partitions) == (places, counted)


@pytest.mark.parametrize(
    "users",
    [
        pa.array([7, -12, 0, None, 2**60]),
        pa.array(["a", "bb", "ç", None, ""]),
        pa.array(["a", "bb", "a", None, "c"]).dictionary_encode(),
        pa.array(["a", "bb", "a", None, "c"], pa.large_string()),
    ],
)
def test_typed_events_stand_where_publishing_puts_them(users: pa.Array) -> None:
    table = pa.concat_tables([pa.table({"user": users.slice(0, 2)}), pa.table({"user": users.slice(2)})])
    assert placed(table, USER, 5)[0] == [
        0 if user is None else murmur2(str(user).encode(), 5) for user in users.to_pylist()
    ]


def test_a_key_may_stand_in_a_struct_or_a_list() -> None:
    users = ["a", None, "bb", "a"]
    nested = [{"ids": None if user is None else ["x", user]} for user in users]
    table = pa.table({"card": pa.array([*nested, None, {"ids": ["x"]}])})
    for part in (table, table.slice(2)):
        wanted = [0 if user is None else murmur2(user.encode(), 5) for user in [*users, None, None]]
        assert placed(part, Field(name="user", type=str, path="card.ids[1]"), 5)[0] == wanted[-len(part) :]


def test_what_names_its_partitions_and_offsets_keeps_them() -> None:
    table = pa.table({"user": ["a", "b"], "partition": [5, 6], "offset": [70, 80]})
    assert placed(table, USER, 2) == ([5, 6], [70, 80])
    assert placed(table.drop(["offset"]), USER, 2) == ([5, 6], [0, 0])


@pytest.mark.parametrize("table", [pa.table({"other": [1]}), pa.table({"user": [{"a": 1}]})])
def test_events_without_a_key_that_can_be_placed_are_left_to_decoding(table: pa.Table) -> None:
    assert placed(table, USER, 3)[0] == [0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_events_out_of_log_order_are_sorted_and_others_stay_as_they_are(
    places: list[tuple[int, int]],
) -> None:
    partitions, offsets = ([place[i] for place in places] for i in (0, 1))
    table = pa.table({
        "partition": pa.array(partitions, pa.int32()), "offset": pa.array(offsets, pa.int64()), "n": range(len(places)),
    })  # fmt: skip
    recorded = RecordedTable(table)
    ascends = all(
        a <= b
        for number in range(4)
        for a, b in itertools.pairwise([offset for partition, offset in places if partition == number])
    )
    assert (in_log_order(recorded) is recorded) == ascends
    if not ascends:
        found = read_table(in_log_order(recorded))
        order = sorted(range(len(places)), key=lambda i: places[i])
        assert [places[i] for i in found["n"].to_pylist()] == [places[i] for i in order]


def test_files_are_one_stream_in_the_order_of_their_names_whatever_columns_each_has(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "y"]}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": pa.array([3], pa.int64()), "b": [0.5]}), tmp_path / "3.parquet")
    pq.write_table(pa.table({"a": range(BATCH_ROWS + 1)}), tmp_path / "1.parquet")
    recorded = RecordedFiles.at(tmp_path)
    table = read_table(recorded)
    assert recorded.rows == len(table) == BATCH_ROWS + 4
    assert table["a"].to_pylist()[-3:] == [1, 2, 3]
    assert table["s"].to_pylist()[-4:] == [None, "x", "y", None]
    assert not recorded.has_nulls("a")
    assert recorded.has_nulls("b")


def test_columns_that_are_never_null_may_be_declared_so_and_missing_in_a_file(tmp_path: Path) -> None:
    never = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string(), nullable=False)])
    pq.write_table(pa.table({"a": [1], "b": ["x"]}, schema=never), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2]}, schema=pa.schema([never.field("a")])), tmp_path / "2.parquet")
    assert read_table(RecordedFiles.at(tmp_path)).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@given(
    texts=st.lists(st.none() | st.sampled_from(["a", "bb", "", "long " * 9]), min_size=1, max_size=50),
    groups=st.integers(1, 20),
    is_dictionary=st.booleans(),
)
def test_texts_that_stand_in_a_file_as_places_in_a_dictionary_are_read_so_and_are_the_same(
    texts: list[str | None], groups: int, is_dictionary: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("texts") / "texts.parquet"
    table = pa.table({"text": pa.array(texts * 20, pa.string()), "n": np.arange(len(texts) * 20)})
    pq.write_table(table, path, row_group_size=20 * groups, use_dictionary=is_dictionary)
    batches = list(RecordedFiles.at(path).batches(["text", "n"]))
    found = pa.concat_tables([pa.table(batch) for batch in batches], promote_options="permissive")
    assert found["text"].cast(pa.string()).to_pylist() == table["text"].to_pylist()
    assert found["n"].to_pylist() == table["n"].to_pylist()
    places, _ = zip(
        *(Placer(batch.schema, Field(name="text", type=str), 3).place(batch) for batch in batches),
        strict=True,
    )
    expected = [0 if text is None else murmur2(text.encode(), 3) for text in texts * 20]
    assert np.concatenate(places).tolist() == expected


def test_a_column_may_hold_nulls_unless_the_footer_says_no(tmp_path: Path) -> None:
    table = pa.table({"full": [1, 2], "holes": [1, None], "nested": [{"a": 1}, {"a": 2}]})
    pq.write_table(table.drop(["nested"]), tmp_path / "said.parquet")
    pq.write_table(table.drop(["nested"]), tmp_path / "silent.parquet", write_statistics=False)
    pq.write_table(table, tmp_path / "nested.parquet")
    said, silent, nested = (
        RecordedFiles.at(tmp_path / f"{name}.parquet") for name in ("said", "silent", "nested")
    )
    assert [said.has_nulls(name) for name in ("full", "holes")] == [False, True]
    assert silent.has_nulls("full")
    assert nested.has_nulls("holes")


def test_a_column_may_hold_extremes_unless_the_footer_says_no(tmp_path: Path) -> None:
    numbers = {"finite": [1.0, math.nan], "infinite": [-math.inf, 0.0], "unknown": [math.nan, math.nan]}
    texts = {"short": ["a", None], "long": ["a", "b" * (LONGEST_RECORD + 1)]}
    table = pa.table({**numbers, **texts, "whole": [1, 2]})
    pq.write_table(table, tmp_path / "said.parquet")
    pq.write_table(table, tmp_path / "silent.parquet", write_statistics=False)
    said, silent = (RecordedFiles.at(tmp_path / f"{name}.parquet") for name in ("said", "silent"))
    assert [name for name in table.column_names if said.has_extremes(name)] == ["infinite", "unknown", "long"]
    assert [name for name in table.column_names if silent.has_extremes(name)] == [*numbers, "long"]
    held = RecordedTable(table)
    assert [name for name in table.column_names if held.has_extremes(name)] == ["infinite", "long"]


def broken_files(folder: Path) -> dict[str, Path]:
    whole = folder / "whole.parquet"
    pq.write_table(pa.table({"a": list(range(20_000))}), whole, use_dictionary=False)
    data = whole.read_bytes()
    for name, content in {
        "text": b"a,b\n1,2\n", "cut": data[: len(data) // 2], "holed": data[:100] + b"\xff" * 9000 + data[9100:]
    }.items():  # fmt: skip
        (folder / name).mkdir()
        pq.write_table(pa.table({"a": [1]}), folder / name / "a.parquet")
        (folder / name / "b.parquet").write_bytes(content)
    return {name: folder / name for name in ("text", "cut", "holed")}


@pytest.mark.parametrize("name", ["text", "cut", "holed"])
def test_a_file_that_can_not_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(Misdeclared, match=f"{name}/b.parquet can't be read as Parquet: .*write it anew"):
        read_table(RecordedFiles.at(broken_files(tmp_path)[name]))


def test_files_that_do_not_go_together_and_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Misdeclared, match="no files"):
        RecordedFiles.at(tmp_path)
    with pytest.raises(Misdeclared, match="There are no recorded events at"):
        RecordedFiles.at(tmp_path / "nowhere")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(Misdeclared, match=r"do not go together: .*a.*cast the column"):
        RecordedFiles.at(tmp_path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("partition", ["x"]),
        ("partition", [None]),
        ("partition", [-1]),
        ("partition", [2**40]),
        ("offset", [1.5]),
    ],
)
def test_positions_that_are_none_are_refused_by_name(column: str, values: list[object]) -> None:
    table = pa.table({"partition": [0], "offset": [0]} | {column: values})
    with pytest.raises(Misdeclared, match=f"Column '{column}'"):
        in_log_order(RecordedTable(table))

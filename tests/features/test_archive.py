import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import murmur2
from hypothesis import given
from hypothesis import strategies as st

from features.archive import ARCHIVE, as_recorded, is_raw
from features.schema import Field

USER = Field(name="user", type=str)


def events(keys: list[bytes | None]) -> pa.Table:
    values = pa.array([b"%d" % i for i in range(len(keys))], pa.binary())
    return pa.table({"key": pa.array(keys, pa.binary()), "value": values, "time": np.arange(len(keys))})


@given(st.lists(st.none() | st.binary(max_size=20), max_size=40), st.integers(1, 7), st.integers(0, 3))
def test_events_stand_where_publishing_puts_them_in_their_order(
    keys: list[bytes | None], partitions: int, skipped: int
) -> None:
    table = as_recorded(events(keys).slice(skipped), USER, partitions)
    assert table.schema == ARCHIVE
    assert is_raw(table.schema)
    assert table["value"].to_pylist() == events(keys).slice(skipped)["value"].to_pylist()
    places = [0 if key is None else murmur2(key, partitions) for key in keys[skipped:]]
    assert table["partition"].to_pylist() == places
    assert table["offset"].to_pylist() == [places[:i].count(place) for i, place in enumerate(places)]


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
    placed = as_recorded(table, USER, 5)
    assert placed.drop(["partition"]).equals(table)
    assert placed["partition"].to_pylist() == [
        0 if user is None else murmur2(str(user).encode(), 5) for user in users.to_pylist()
    ]


def test_what_names_its_partitions_stays_as_it_is() -> None:
    recorded = as_recorded(events([b"a", b"b"]), USER, 3)
    assert as_recorded(recorded, USER, 2) is recorded
    typed = pa.table({"user": ["a", "b"], "partition": [5, 6]})
    assert as_recorded(typed, USER, 2) is typed


@pytest.mark.parametrize("table", [pa.table({"other": [1]}), pa.table({"user": [{"a": 1}]})])
def test_events_without_a_key_that_can_be_placed_are_left_to_decoding(table: pa.Table) -> None:
    assert as_recorded(table, USER, 3)["partition"].to_pylist() == [0]

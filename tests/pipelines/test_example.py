import pyarrow as pa
import pytest

from features.errors import Misdeclared
from pipelines.example import RECORDS, MadeUp


def tables(events: int, seed: int) -> list[pa.Table]:
    return [
        pa.table({"key": [b"k"], "value": [b"%d" % seed], "time": [number]}, schema=RECORDS)
        for number in range(events)
    ]


def test_called_without_arguments_it_is_one_table_of_what_is_declared() -> None:
    assert MadeUp(make=tables, events=3, seed=4)().to_pydict() == {
        "key": [b"k"] * 3,
        "value": [b"4"] * 3,
        "time": [0, 1, 2],
    }


@pytest.mark.parametrize(("events", "seed"), [(0, 1), (1, -1)])
def test_no_events_or_a_seed_below_0_are_refused(events: int, seed: int) -> None:
    with pytest.raises(Misdeclared, match=f"MadeUp events is {events} and seed {seed}"):
        MadeUp(make=tables, events=events, seed=seed)

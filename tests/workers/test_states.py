import asyncio
from collections.abc import Iterator
from threading import Event
from typing import Any

import numpy as np
import pytest

from features.decode import RecordDecoder
from features.errors import Misdeclared
from features.records import Records
from tests.features import streams
from tests.features.test_engine import MIXED
from workers.log import LogReader, Ranges
from workers.states import Note, StateKeeper
from workers.transport.partitions import AssignedPartition, Partition

HERE = Partition("events", 0)
EVENTS = [
    {"card": f"card-{i % 3}", "shop": "a", "ts": i * 700, "amount": float(i), "kind": "buy"}
    for i in range(100)
]


class Log(LogReader):
    """A topic of one partition that begins at ``low``."""

    def __init__(self, low: int = 0) -> None:
        super().__init__({}, "events")
        self.low = low

    def read(self, ranges: Ranges, stop: Event | None = None) -> Iterator[tuple[int, Records]]:
        for number, (start, end) in ranges.items():
            assert start >= self.low
            for first in range(start, last := len(EVENTS) if end is None else end, 7):
                if stop is not None and stop.is_set():
                    return
                yield number, streams.records(EVENTS[first : min(first + 7, last)], first)


def assigned(committed: int | None, low: int = 0, metadata: str = "") -> AssignedPartition:
    return AssignedPartition(
        partition=HERE, committed=committed, metadata=metadata, low=low, high=len(EVENTS)
    )


def keeper(low: int = 0, *, cold_start: bool = False) -> StateKeeper:
    return StateKeeper(MIXED, lambda _topic: Log(low), cold_start=cold_start)


def note(origin: int) -> str:
    return f'{{"origin":{origin},"state":"{MIXED.state_fingerprint}"}}'


def rows_after(states: StateKeeper, first: int) -> bytes:
    columns = RecordDecoder(MIXED.schema).decode(streams.records(EVENTS[first:])).columns
    return states[HERE].process(columns).block.tobytes()


def expected_after(first: int, origin: int = 0) -> bytes:
    state = MIXED.new_partition()
    streams.process(MIXED, EVENTS[origin:first], state=state)
    return streams.process(MIXED, EVENTS[first:], state=state).block.tobytes()


@pytest.mark.parametrize("committed", [0, 1, 50, 99, 100])
def test_a_state_is_recovered_as_of_the_committed_offset(committed: int) -> None:
    states = keeper()
    notes = asyncio.run(states.on_assign([assigned(committed)]))
    assert notes == {HERE: note(0)}
    assert states.replayed == committed
    assert rows_after(states, committed) == expected_after(committed)


def test_a_group_without_offsets_begins_at_the_oldest_record_and_remembers_it() -> None:
    states = keeper(low=20)
    assert asyncio.run(states.on_assign([assigned(None, low=20)])) == {HERE: note(20)}
    assert states.replayed == 0
    assert asyncio.run(keeper(low=20).on_assign([assigned(60, low=20, metadata=note(20))])) == {
        HERE: note(20)
    }


@pytest.mark.parametrize("metadata", ["", "not ours", note(0)])
def test_a_state_whose_records_are_gone_is_refused(metadata: str) -> None:
    with pytest.raises(
        Misdeclared, match=r"is the fold from offset 0, and the topic begins at 20; .* --cold-start"
    ):
        asyncio.run(keeper(low=20).on_assign([assigned(60, low=20, metadata=metadata)]))


def test_a_cold_start_begins_empty_at_the_committed_offset() -> None:
    states = keeper(low=20, cold_start=True)
    assert asyncio.run(states.on_assign([assigned(60, low=20, metadata=note(0))])) == {HERE: note(60)}
    assert rows_after(states, 60) == expected_after(60, origin=60)


def test_a_partition_that_left_has_no_state() -> None:
    states = keeper()
    asyncio.run(states.on_assign([assigned(10)]))
    assert states.keys > 0
    asyncio.run(states.on_revoke([HERE]))
    assert states.keys == 0
    with pytest.raises(KeyError):
        _ = states[HERE]


def test_a_cancelled_recovery_stops_reading() -> None:
    began, stopped = Event(), Event()

    class Endless(Log):
        def read(self, ranges: Ranges, stop: Event | None = None) -> Iterator[tuple[int, Records]]:  # noqa: ARG002
            assert stop is not None
            began.set()
            while not stop.wait(0.01):
                yield 0, streams.records(EVENTS[:1])
            stopped.set()

    async def cancel() -> None:
        states = StateKeeper(MIXED, lambda _topic: Endless(), cold_start=False)
        loading = asyncio.create_task(states.on_assign([assigned(60)]))
        await asyncio.to_thread(began.wait, 10)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        assert await asyncio.to_thread(stopped.wait, 10)

    asyncio.run(cancel())


def test_a_note_reads_back() -> None:
    import msgspec  # noqa: PLC0415

    read: Any = msgspec.json.decode(note(7), type=Note)
    assert read.origin == 7
    assert np.array_equal([read.state], [MIXED.state_fingerprint])

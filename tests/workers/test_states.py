import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any, Literal

import numpy as np
import pytest

from features.decode import RecordDecoder
from features.errors import Misdeclared, Unavailable
from features.records import Records
from tests.features import streams
from tests.features.test_engine import MIXED
from tests.workers.topics_seen import wait_for
from workers.checkpoints.store import CheckpointStore
from workers.log import LogReader, Ranges
from workers.ports import free_port
from workers.recovery import Means, Note, Recovery
from workers.states import StateKeeper
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.retries import Retries

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


def keeper(
    log: Log | None = None,
    store: CheckpointStore | None = None,
    identity: tuple[str, int] | None = ("5eed" * 8, 1),
    *,
    cold_start: bool = False,
    notes: Sequence[str] = (),
    added: Literal["stop", "cold"] = "stop",
) -> StateKeeper:
    means = Means(
        pipeline="shop",
        engine=MIXED,
        reader=lambda _topic: log or Log(),
        identify=lambda _topic: identity,
        notes=lambda _topic: notes,
        store=store,
        retries=Retries(deadline=timedelta(seconds=8)),  # one look at S3 that is away takes 6 s
        clock=time.monotonic,
        cold_start=cold_start,
        on_partitions_added=added,
    )
    return StateKeeper(Recovery(means), timedelta(seconds=0.1), time.monotonic)


def note(origin: int) -> str:
    return note_of(origin, "5eed" * 8, 1)


def note_of(origin: int, topic_id: str, partitions: int, pipeline: str = "shop") -> str:
    of = f'"topic_id":"{topic_id}","partitions":{partitions},"pipeline":"{pipeline}"'
    return f'{{"origin":{origin},"state":"{MIXED.state_fingerprint}",{of}}}'


def rows_after(states: StateKeeper, first: int) -> bytes:
    columns = RecordDecoder(MIXED.schema).decode(streams.records(EVENTS[first:])).columns
    return states.process(HERE, columns, len(EVENTS)).block.tobytes()


def expected_after(first: int, origin: int = 0) -> bytes:
    state = MIXED.new_partition()
    streams.process(MIXED, EVENTS[origin:first], state=state)
    return streams.process(MIXED, EVENTS[first:], state=state).block.tobytes()


@pytest.mark.parametrize("committed", [0, 1, 50, 99, 100])
def test_a_state_is_recovered_as_of_the_committed_offset(committed: int) -> None:
    states = keeper()
    notes = asyncio.run(states.on_assign([assigned(committed)]))
    assert notes == {HERE: note(0)}
    assert states.recovery.replayed == committed
    assert rows_after(states, committed) == expected_after(committed)


def test_a_group_without_offsets_begins_at_the_oldest_record_and_remembers_it() -> None:
    states = keeper(Log(20))
    assert asyncio.run(states.on_assign([assigned(None, low=20)])) == {HERE: note(20)}
    assert states.recovery.replayed == 0
    assert asyncio.run(keeper(Log(20)).on_assign([assigned(60, low=20, metadata=note(20))])) == {
        HERE: note(20)
    }


@pytest.mark.parametrize("metadata", ["", "not ours", note(0)])
def test_a_state_whose_records_are_gone_is_refused(metadata: str) -> None:
    with pytest.raises(
        Misdeclared,
        match=r"is the fold from offset 0, the topic begins at 20, .* headrace bootstrap, .* --cold-start",
    ):
        asyncio.run(keeper(Log(20)).on_assign([assigned(60, low=20, metadata=metadata)]))


def test_a_cold_start_begins_empty_at_the_committed_offset() -> None:
    states = keeper(Log(20), cold_start=True)
    assert asyncio.run(states.on_assign([assigned(60, low=20, metadata=note(0))])) == {HERE: note(60)}
    assert rows_after(states, 60) == expected_after(60, origin=60)


def test_a_partition_that_left_has_no_state() -> None:
    states = keeper()
    asyncio.run(states.on_assign([assigned(10)]))
    assert states.keys > 0
    asyncio.run(states.on_revoke([HERE]))
    assert states.keys == 0
    with pytest.raises(KeyError):
        rows_after(states, 10)


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
        states = keeper(Endless())
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


def checkpointed(store: CheckpointStore, *offsets: int, log: Log | None = None) -> None:
    """A worker folds the log, and writes checkpoints at these offsets."""

    async def work() -> None:
        states = keeper(log, store)
        await states.on_assign([assigned(0)])
        (held,) = states._held.values()
        for start, end in zip((0, *offsets), offsets, strict=False):
            columns = RecordDecoder(MIXED.schema).decode(streams.records(EVENTS[start:end], start)).columns
            states.process(HERE, columns, end)
            assert await states.checkpointer.write(HERE, held)

    asyncio.run(work())


def written(states: StateKeeper, checkpoints: int) -> None:
    wait_for(lambda: states.checkpointer.stats.written == checkpoints, f"checkpoint {checkpoints}")


@pytest.mark.parametrize(("committed", "loaded"), [(10, 0), (20, 20), (45, 20), (50, 50), (100, 80)])
def test_recovery_goes_on_from_the_newest_checkpoint_up_to_the_committed_offset(
    tmp_path: Path, committed: int, loaded: int
) -> None:
    store = CheckpointStore.at(str(tmp_path))
    checkpointed(store, 20, 50, 80)
    states = keeper(Log(loaded), store)
    assert asyncio.run(states.on_assign([assigned(committed, low=loaded)])) == {HERE: note(0)}
    assert states.recovery.replayed == committed - loaded
    assert rows_after(states, committed) == expected_after(committed)


def test_a_checkpoint_helps_though_the_topic_has_lost_what_it_is_the_fold_of(tmp_path: Path) -> None:
    store = CheckpointStore.at(str(tmp_path))
    checkpointed(store, 50)
    states = keeper(Log(40), store)
    asyncio.run(states.on_assign([assigned(60, low=40, metadata=note(0))]))
    assert rows_after(states, 60) == expected_after(60)
    with pytest.raises(Misdeclared, match="there is no checkpoint to go on from"):
        asyncio.run(keeper(Log(55), store).on_assign([assigned(60, low=55, metadata=note(0))]))


@pytest.mark.parametrize("identity", [("0ther" * 6 + "00", 1), ("5eed" * 8, 2), None])
def test_checkpoints_of_another_topic_or_partition_count_are_not_used(
    tmp_path: Path, identity: tuple[str, int] | None
) -> None:
    store = CheckpointStore.at(str(tmp_path))
    checkpointed(store, 50)
    states = keeper(None, store, identity)
    asyncio.run(states.on_assign([assigned(60)]))
    assert states.recovery.replayed == 60


def test_a_leaving_partition_gets_a_last_checkpoint_and_a_lost_one_none(tmp_path: Path) -> None:
    store = CheckpointStore.at(str(tmp_path))

    async def work(committed: int, *, is_lost: bool) -> int:
        states = keeper(None, store)
        await states.on_assign([assigned(committed)])
        await (states.on_lost([HERE]) if is_lost else states.on_revoke([HERE]))
        return states.recovery.replayed

    assert asyncio.run(work(30, is_lost=True)) == 30
    assert asyncio.run(work(30, is_lost=False)) == 30
    assert asyncio.run(work(40, is_lost=True)) == 10


def test_checkpoints_are_written_beside_the_events_and_pruned(tmp_path: Path) -> None:
    store = CheckpointStore.at(str(tmp_path))

    async def work() -> None:
        states = keeper(None, store)
        await states.on_assign([assigned(0)])
        running = asyncio.create_task(states.checkpointer.run(lambda: {HERE: 90}))
        for start in range(0, 90, 10):
            columns = (
                RecordDecoder(MIXED.schema).decode(streams.records(EVENTS[start : start + 10], start)).columns
            )
            states.process(HERE, columns, start + 10)
            await asyncio.to_thread(written, states, start // 10 + 1)
        await asyncio.sleep(0.3)
        running.cancel()
        assert states.checkpointer.stats.written == 9
        assert states.checkpointer.stats.failed == 0

    asyncio.run(work())
    assert [path.name[:20] for path in sorted(tmp_path.rglob("*.json"))] == [f"{80:020d}", f"{90:020d}"]
    states = keeper(None, store)
    asyncio.run(states.on_assign([assigned(95)]))
    assert states.recovery.replayed == 5
    assert rows_after(states, 95) == expected_after(95)


def test_a_store_that_is_away_is_tried_again_and_then_named() -> None:
    nowhere = f"s3://key:secret@states?endpoint_override=127.0.0.1:{free_port()}&scheme=http&region=us-east-1"
    began = time.monotonic()
    with pytest.raises(
        Unavailable, match=r"events\[0\]: looking for a checkpoint: failed \d+ times .* Can't list"
    ):
        asyncio.run(keeper(None, CheckpointStore.at(nowhere)).on_assign([assigned(10)]))
    assert time.monotonic() - began >= 8


def test_a_worker_goes_on_without_checkpoints_for_a_while_and_then_ends(tmp_path: Path) -> None:
    store = CheckpointStore.at(str(tmp_path))

    async def work() -> int:
        states = keeper(None, store)
        await states.on_assign([assigned(0)])
        (tmp_path / "shop").write_text("in the way")
        columns = RecordDecoder(MIXED.schema).decode(streams.records(EVENTS)).columns
        states.process(HERE, columns, len(EVENTS))
        with pytest.raises(Unavailable, match=r"no checkpoint for \d+ s: Can't write"):
            await states.checkpointer.run(dict)
        return states.checkpointer.stats.failed

    assert asyncio.run(work()) > 5


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (note_of(0, "0ther" * 6 + "00", 1), r"'events' was made anew .* give --group another name"),
        (
            note_of(0, "5eed" * 8, 1, "stall"),
            r"offsets of topic 'events' are of pipeline 'stall': .* give --group",
        ),
        (note_of(0, "5eed" * 8, 3), r"has 1 partitions, and states are of 3: .*on_partitions_added='cold'"),
    ],
)
def test_offsets_of_another_topic_pipeline_or_partition_count_are_refused(stored: str, said: str) -> None:
    with pytest.raises(Misdeclared, match=said):
        asyncio.run(keeper(notes=[note(0), stored]).on_assign([assigned(10)]))


def test_moved_keys_may_begin_cold_and_what_is_not_known_is_not_refused() -> None:
    for states in (
        keeper(notes=[note_of(0, "5eed" * 8, 3)], added="cold"),
        keeper(notes=["", "not ours", note_of(0, "", 0, "")]),
        keeper(identity=None, notes=[note_of(0, "0ther" * 6 + "00", 3)]),
    ):
        asyncio.run(states.on_assign([assigned(10)]))
        assert rows_after(states, 10) == expected_after(10)

"""State comes and goes with partitions: recovered before a partition's first slice, dropped when it leaves.

A partition's state at offset ``o`` is the fold of its records in ``[origin, o)``. Recovery loads the newest usable
checkpoint, or begins at the origin, and replays the source silently from there to the committed offset. The origin
goes along with every commit as its metadata.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from features.ahead import ahead
from features.columns import Columns
from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.errors import Misdeclared, Unavailable
from features.rows import Rows
from workers.checkpoints.checkpointer import Checkpointer
from workers.checkpoints.held import Held
from workers.checkpoints.manifest import Checkpoint, Lineage, Unreadable
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing
from workers.log import LogReader
from workers.transport.partitions import AssignedPartition, Partition

_log = logging.getLogger(__name__)

_FAREWELL = 0.5
"""Seconds that a leaving partition's last checkpoint may take; the other partitions wait for it."""

Identify = Callable[[str], tuple[str, int] | None]


class Note(msgspec.Struct, frozen=True):
    """What is stored with each commit of a partition.

    Args:
        origin: The first offset that its state is the fold of.
        state: The state fingerprint with which it was committed.
    """

    origin: int
    state: str


@dataclass(slots=True)
class Recovery:
    """How far the states of the newest assignment are.

    Args:
        replayed: Records, since the start.
        to_replay: Offsets that were to be replayed.
        since: When the replay began, s on the clock.
        before: What was replayed before that.
    """

    replayed: int = 0
    to_replay: int = 0
    since: float = 0.0
    before: int = 0


class StateKeeper:
    """The state of every assigned partition; the transport's state hooks.

    Args:
        name: The pipeline's.
        engine: Computes it.
        reader: Opens a reader of a topic.
        identify: A topic's UUID and number of partitions, if the brokers tell.
        store: Where checkpoints are; ``None`` for none.
        interval: Between two checkpoints of a partition.
        clock: Seconds, monotonic.
        cold_start: Whether a state that can't be recovered begins empty instead of refusing.
    """

    def __init__(  # noqa: PLR0913 - the seams of recovery
        self,
        name: str,
        engine: Engine,
        reader: Callable[[str], LogReader],
        identify: Identify,
        store: CheckpointStore | None,
        *,
        interval: timedelta,
        clock: Callable[[], float],
        cold_start: bool,
    ) -> None:
        self._name, self._engine, self._reader, self._identify = name, engine, reader, identify
        self._store, self._clock, self._cold_start = store, clock, cold_start
        self._held: dict[Partition, Held] = {}
        self.checkpointer = Checkpointer(self._held, interval, clock)
        self.recovery = Recovery()

    def process(self, partition: Partition, columns: Columns, next_offset: int) -> Rows:
        """Read and fold a slice of an assigned partition.

        Args:
            partition: Which one.
            columns: The slice's events.
            next_offset: The offset after its last record.
        """
        held = self._held[partition]
        rows = held.state.process(columns)
        held.next_offset = next_offset
        return rows

    @property
    def keys(self) -> int:
        """Entities held."""
        return sum(held.state.keys for held in list(self._held.values()))

    @property
    def size(self) -> int:
        """Bytes of state in use."""
        return sum(held.state.size for held in list(self._held.values()))

    def progress(self) -> str:
        """How far recovery is, and how long it will go on at this speed."""
        recovery = self.recovery
        done, seconds = recovery.replayed - recovery.before, self._clock() - recovery.since
        left = max(0, recovery.to_replay - done)
        estimate = f", about {left * seconds / done:.0f} s to go" if done and left else ""
        return f"{done} of {recovery.to_replay} offsets replayed{estimate}"

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        """Recover the partitions' states as of their committed offsets."""
        stop = threading.Event()
        try:
            held = await asyncio.to_thread(self._recover, assigned, stop)
        except asyncio.CancelledError:
            stop.set()
            raise
        self._held |= held
        return {partition: self._note(each.origin) for partition, each in held.items()}

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """A last checkpoint of partitions that leave, if it is had quickly, and drop their states."""
        try:
            async with asyncio.timeout(_FAREWELL):
                for partition in partitions:
                    if (held := self._held.get(partition)) is not None:
                        await self.checkpointer.write(partition, held, hurry=True)
        except (TimeoutError, Unavailable) as error:
            _log.info("no last checkpoint of partitions that leave: %s", error or "it takes too long")
        await self.on_lost(partitions)

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the states of partitions that have left."""
        for partition in partitions:
            self._held.pop(partition, None)

    def _note(self, origin: int) -> str:
        return msgspec.json.encode(Note(origin=origin, state=self._engine.state_fingerprint)).decode()

    # -- recovery, in a thread ------------------------------------------------------------------------------------

    def _recover(self, assigned: Sequence[AssignedPartition], stop: threading.Event) -> dict[Partition, Held]:
        self.recovery.since, self.recovery.before = self._clock(), self.recovery.replayed
        self.recovery.to_replay = 0
        identities = {topic: self._identify(topic) for topic in {each.partition.topic for each in assigned}}
        held = {}
        for each in assigned:
            held[each.partition] = self._begin(each, identities[each.partition.topic])
            self.recovery.to_replay += max(0, _end(each) - held[each.partition].next_offset)
        by_topic: dict[str, dict[int, tuple[int, int]]] = {}
        for each in assigned:
            ranges = by_topic.setdefault(each.partition.topic, {})
            ranges[each.partition.number] = held[each.partition].next_offset, _end(each)
        decoder = RecordDecoder(self._engine.schema)
        for topic, ranges in by_topic.items():
            for number, records in ahead(self._reader(topic).read(ranges, stop)):
                held[Partition(topic, number)].state.process(decoder.decode(records).columns)
                self.recovery.replayed += len(records)
        for each in assigned:
            held[each.partition].next_offset = each.start
        return held

    def _begin(self, assigned: AssignedPartition, identity: tuple[str, int] | None) -> Held:
        """A state that the replay can go on with."""
        partition, writing = assigned.partition, None
        lineage = None
        if self._store is not None and identity is not None:
            topic_id, partitions = identity
            lineage = Lineage(
                self._name,
                partition.topic,
                topic_id,
                partitions,
                self._engine.state_fingerprint,
                partition.number,
            )
        state, found = self._engine.new_partition(), None
        if lineage is not None and (loaded := self._load(assigned, lineage)) is not None:
            state, found = loaded
        origin = self._origin(assigned) if found is None else found.origin
        if self._store is not None and lineage is not None:
            writing = Writing(self._store, lineage, self._engine.layout, origin)
        return Held(
            state=state,
            origin=origin,
            next_offset=origin if found is None else found.next_offset,
            writing=writing,
            saved_at=-1 if found is None else found.next_offset,
            saved_since=self._clock(),
        )

    def _load(
        self, assigned: AssignedPartition, lineage: Lineage
    ) -> tuple[PartitionState, Checkpoint] | None:
        """The newest usable checkpoint: up to the committed offset, and the log holds what comes after it."""
        assert self._store is not None
        for checkpoint in self._store.checkpoints(lineage):
            if not assigned.low <= checkpoint.next_offset <= _end(assigned):
                continue
            state = self._engine.new_partition()
            try:
                self._store.load(checkpoint, state)
            except Unreadable as reason:
                _log.warning(
                    "%s: checkpoint %s can't be used: %s", assigned.partition, checkpoint.name, reason
                )
            else:
                return state, checkpoint
        return None

    def _origin(self, assigned: AssignedPartition) -> int:
        """Where the state's fold begins; raises `Misdeclared` where the log no longer holds it."""
        if assigned.committed is None:
            return assigned.low
        note = _read_note(assigned.metadata)
        origin = 0 if note is None else note.origin
        if assigned.low <= origin:
            return origin
        if self._cold_start:
            return assigned.start
        raise Misdeclared(
            f"{assigned.partition}: the state at the committed offset {assigned.committed} is the fold from offset {origin}, "
            f"the topic begins at {assigned.low}, and there is no checkpoint to go on from; make one from recorded events "
            "with headrace bootstrap, keep the source longer (retention.ms), or begin with empty state by --cold-start"
        )


def _end(assigned: AssignedPartition) -> int:
    """Where the silent replay ends."""
    return assigned.low if assigned.committed is None else assigned.committed


def _read_note(metadata: str) -> Note | None:
    """What was stored with the commit, if it was stored by us."""
    try:
        return msgspec.json.decode(metadata, type=Note)
    except msgspec.DecodeError:
        return None

"""State comes and goes with partitions: recovered before a partition's first slice, dropped when it leaves.

A partition's state at offset ``o`` is the fold of its records in ``[origin, o)``. The origin goes along
with every commit as its metadata; recovery replays the source silently from there to the committed
offset.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.errors import Misdeclared
from workers.log import LogReader
from workers.transport.partitions import AssignedPartition, Partition


class Note(msgspec.Struct, frozen=True):
    """What is stored with each commit of a partition.

    Args:
        origin: The first offset that its state is the fold of.
        state: The state fingerprint with which it was committed.
    """

    origin: int
    state: str


class StateKeeper:
    """The state of every assigned partition; the transport's state hooks.

    Args:
        engine: Computes it.
        reader: Opens a reader of a topic.
        cold_start: Whether a state that can't be recovered begins empty instead of refusing.
    """

    def __init__(self, engine: Engine, reader: Callable[[str], LogReader], *, cold_start: bool) -> None:
        self._engine, self._reader, self._cold_start = engine, reader, cold_start
        self._states: dict[Partition, PartitionState] = {}
        self.replayed = 0
        self.to_replay = 0

    def __getitem__(self, partition: Partition) -> PartitionState:
        """The state of an assigned partition."""
        return self._states[partition]

    @property
    def keys(self) -> int:
        """Entities held."""
        return sum(state.keys for state in self._states.values())

    @property
    def size(self) -> int:
        """Bytes of state in use."""
        return sum(state.size for state in self._states.values())

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        """Recover the partitions' states as of their committed offsets."""
        origins = {each.partition: self._origin(each) for each in assigned}
        stop = threading.Event()
        try:
            await asyncio.to_thread(self._recover, assigned, origins, stop)
        except asyncio.CancelledError:
            stop.set()
            raise
        return {partition: self._note(origin) for partition, origin in origins.items()}

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """Drop the states of partitions that leave."""
        for partition in partitions:
            self._states.pop(partition, None)

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the states of partitions that have left."""
        await self.on_revoke(partitions)

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
            f"and the topic begins at {assigned.low}; keep the source longer (retention.ms), "
            "or begin with empty state by --cold-start"
        )

    def _note(self, origin: int) -> str:
        return msgspec.json.encode(Note(origin=origin, state=self._engine.state_fingerprint)).decode()

    def _recover(
        self, assigned: Sequence[AssignedPartition], origins: Mapping[Partition, int], stop: threading.Event
    ) -> None:
        by_topic: dict[str, dict[int, tuple[int, int]]] = {}
        for each in assigned:
            self._states[each.partition] = self._engine.new_partition()
            end = each.low if each.committed is None else each.committed
            by_topic.setdefault(each.partition.topic, {})[each.partition.number] = (
                origins[each.partition],
                end,
            )
            self.to_replay += max(0, end - origins[each.partition])
        decoder = RecordDecoder(self._engine.schema)
        for topic, ranges in by_topic.items():
            for number, records in self._reader(topic).read(ranges, stop):
                self._states[Partition(topic, number)].process(decoder.decode(records).columns)
                self.replayed += len(records)


def _read_note(metadata: str) -> Note | None:
    """What was stored with the commit, if it was stored by us."""
    try:
        return msgspec.json.decode(metadata, type=Note)
    except msgspec.DecodeError:
        return None

"""Recovery: the state of a partition as of its committed offset.

It goes on from the newest usable checkpoint, or begins at the origin, and replays the source silently.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from features.ahead import ahead
from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.errors import Misdeclared, Unavailable
from workers.checkpoints.held import Held
from workers.checkpoints.manifest import Checkpoint, Lineage, Unreadable
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing
from workers.log import LogReader
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.retries import Attempts, Retries

_log = logging.getLogger(__name__)

Identity = tuple[str, int]
"""A topic's UUID, as hexadecimal, and its number of partitions."""


class Note(msgspec.Struct, frozen=True):
    """What is stored with each commit of a partition.

    Args:
        origin: The first offset that its state is the fold of.
        state: The state fingerprint with which it was committed.
    """

    origin: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What recovery works with.

    Args:
        pipeline: Name.
        engine: Computes states.
        reader: Opens a reader of a topic.
        identify: A topic's identity, if the brokers tell.
        store: Where checkpoints are; ``None`` for none.
        retries: Of a store that can't be reached.
        clock: Seconds, monotonic.
        cold_start: Whether a state that can't be recovered begins empty instead of refusing.
    """

    pipeline: str
    engine: Engine
    reader: Callable[[str], LogReader]
    identify: Callable[[str], Identity | None]
    store: CheckpointStore | None
    retries: Retries
    clock: Callable[[], float]
    cold_start: bool


class Recovery:
    """Recovers partitions' states; `run` blocks.

    Args:
        means: What it works with.

    Attributes:
        replayed: Records, since the start.
    """

    def __init__(self, means: Means) -> None:
        self._means = means
        self.replayed = 0
        self._before, self._to_replay, self._since = 0, 0, 0.0

    def progress(self) -> str:
        """How far it is, and how long it will go on at this speed, for people."""
        done, seconds = self.replayed - self._before, self._means.clock() - self._since
        left = max(0, self._to_replay - done)
        estimate = f", about {left * seconds / done:.0f} s to go" if done and left else ""
        return f"{done} of {self._to_replay} offsets replayed{estimate}"

    def run(self, assigned: Sequence[AssignedPartition], stop: threading.Event) -> dict[Partition, Held]:
        """The states as of the committed offsets; ends early, and of no use, when ``stop`` is set.

        Raises:
            Misdeclared: The log doesn't hold what is needed.
            Unavailable: Brokers or store can't be reached.
        """
        means = self._means
        self._since, self._before, self._to_replay = means.clock(), self.replayed, 0
        identities = {topic: means.identify(topic) for topic in {each.partition.topic for each in assigned}}
        held = {
            each.partition: self._begin(each, identities[each.partition.topic], stop) for each in assigned
        }
        ranges: dict[str, dict[int, tuple[int, int]]] = {}
        for each in assigned:
            begin, end = held[each.partition].next_offset, _end(each)
            ranges.setdefault(each.partition.topic, {})[each.partition.number] = begin, end
            self._to_replay += max(0, end - begin)
        decoder = RecordDecoder(means.engine.schema)
        for topic, stretches in ranges.items():
            with closing(ahead(means.reader(topic).read(stretches, stop))) as pieces:
                for number, records in pieces:
                    held[Partition(topic, number)].state.process(decoder.decode(records).columns)
                    self.replayed += len(records)
        for each in assigned:
            held[each.partition].next_offset = each.start
        return held

    def note(self, held: Held) -> str:
        """What goes along with the commits of a partition."""
        return msgspec.json.encode(
            Note(origin=held.origin, state=self._means.engine.state_fingerprint)
        ).decode()

    def _begin(self, assigned: AssignedPartition, identity: Identity | None, stop: threading.Event) -> Held:
        """A state that the replay can go on with."""
        means, writing, found = self._means, None, None
        state = means.engine.new_partition()
        if means.store is not None and identity is not None:
            partition, (topic_id, partitions) = assigned.partition, identity
            lineage = Lineage(
                means.pipeline,
                partition.topic,
                topic_id,
                partitions,
                means.engine.state_fingerprint,
                partition.number,
            )
            loaded = self._load(means.store, assigned, lineage, stop)
            state, found = (state, None) if loaded is None else loaded
            origin = self._origin(assigned) if found is None else found.origin
            writing = Writing(means.store, lineage, means.engine.layout, origin)
        else:
            origin = self._origin(assigned)
        return Held(
            state=state,
            origin=origin,
            next_offset=origin if found is None else found.next_offset,
            writing=writing,
            saved_at=-1 if found is None else found.next_offset,
            saved_since=means.clock(),
        )

    def _load(
        self, store: CheckpointStore, assigned: AssignedPartition, lineage: Lineage, stop: threading.Event
    ) -> tuple[PartitionState, Checkpoint] | None:
        """The newest usable checkpoint; a store that is away is tried again for a while."""
        attempts = Attempts(self._means.retries, f"{assigned.partition}: looking for a checkpoint")
        while True:
            try:
                return self._newest(store, assigned, lineage)
            except Unavailable as error:
                if stop.wait(attempts.failed(error, self._means.clock())):
                    return None

    def _newest(
        self, store: CheckpointStore, assigned: AssignedPartition, lineage: Lineage
    ) -> tuple[PartitionState, Checkpoint] | None:
        """One up to the committed offset, of which the log holds what comes after."""
        away: Unavailable | None = None
        for checkpoint in store.checkpoints(lineage):
            if not assigned.low <= checkpoint.next_offset <= _end(assigned):
                continue
            state = self._means.engine.new_partition()
            try:
                store.load(checkpoint, state)
            except (Unreadable, Unavailable) as reason:
                away = reason if isinstance(reason, Unavailable) else away
                _log.warning(
                    "%s: checkpoint %s can't be used: %s", assigned.partition, checkpoint.name, reason
                )
            else:
                return state, checkpoint
        if away is not None:
            raise away
        return None

    def _origin(self, assigned: AssignedPartition) -> int:
        """Where the state's fold begins; raises `Misdeclared` where the log no longer holds it."""
        if assigned.committed is None:
            return assigned.low
        note = _read_note(assigned.metadata)
        origin = 0 if note is None else note.origin
        if assigned.low <= origin:
            return origin
        if self._means.cold_start:
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

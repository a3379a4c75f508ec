"""Recovery: the state of a partition as of its committed offset.

It goes on from the newest usable checkpoint, or begins at the origin, and replays the source silently.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.errors import Misdeclared, Unavailable
from workers.checkpoints.held import Held, Identity
from workers.checkpoints.manifest import Checkpoint, Lineage, Unreadable
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing
from workers.log import LogReader
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.retries import Attempts, Retries

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Note(msgspec.Struct, frozen=True):
    """What is stored with each commit of a partition.

    Args:
        origin: The first offset that its state is the fold of.
        state: The state fingerprint with which it was committed.
        topic_id: UUID of the topic, as hexadecimal; empty where it was not known.
        partitions: How many it had; 0 where that was not known.
        pipeline: Whose state it is.
    """

    origin: int
    state: str
    topic_id: str = ""
    partitions: int = 0
    pipeline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What recovery works with.

    Args:
        pipeline: Name.
        engine: Computes states.
        reader: Opens a reader of a topic.
        identify: A topic's identity, if the brokers tell.
        notes: What the group has stored with its commits, of every partition of a topic.
        store: Where checkpoints are; ``None`` for none.
        retries: Of a store that can't be reached.
        clock: Seconds, monotonic.
        cold_start: Whether a state that can't be recovered begins empty instead of refusing.
        on_partitions_added: As the pipeline's source declares.
    """

    pipeline: str
    engine: Engine
    reader: Callable[[str], LogReader]
    identify: Callable[[str], Identity | None]
    notes: Callable[[str], Iterable[str]]
    store: CheckpointStore | None
    retries: Retries
    clock: Callable[[], float]
    cold_start: bool
    on_partitions_added: Literal["stop", "cold"] = "stop"


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
        identities = {
            topic: self._identity(topic, stop) for topic in {each.partition.topic for each in assigned}
        }
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
            for number, records in means.reader(topic).read(stretches, stop):
                held[Partition(topic, number)].state.process(decoder.decode(records).columns)
                self.replayed += len(records)
        for each in assigned:
            held[each.partition].next_offset = each.start
        return held

    def note(self, held: Held) -> str:
        """What goes along with the commits of a partition."""
        topic_id, partitions = held.identity or ("", 0)
        state = self._means.engine.state_fingerprint
        note = Note(
            origin=held.origin,
            state=state,
            topic_id=topic_id,
            partitions=partitions,
            pipeline=self._means.pipeline,
        )
        return msgspec.json.encode(note).decode()

    def _identity(self, topic: str, stop: threading.Event) -> Identity | None:
        """The topic's, if it is the one that the group's offsets are of."""
        means = self._means
        found = self._tried(f"{topic}: looking at it", lambda: means.identify(topic), stop)
        if found is None:
            return None
        topic_id, partitions = found
        for note in filter(None, map(_read_note, means.notes(topic))):
            if note.pipeline not in {"", means.pipeline}:
                raise Misdeclared(
                    f"the group's offsets of topic {topic!r} are of pipeline {note.pipeline!r}: two pipelines in one group "
                    "would share its partitions, so that each sees a part of the events; give --group another name"
                )
            if note.topic_id not in {"", topic_id}:
                raise Misdeclared(
                    f"topic {topic!r} was made anew since its group committed offsets, which are of the old one: "
                    "give --group another name, or delete the group's offsets"
                )
            has_moved = note.partitions not in {0, partitions} and bool(means.engine.compiled)
            if has_moved and means.on_partitions_added == "stop":
                raise Misdeclared(
                    f"topic {topic!r} has {partitions} partitions, and states are of {note.partitions}: keys have moved to "
                    "other partitions, and what was known of them has not; publish the events to a topic with as many "
                    "partitions, or go on with moved keys cold: Source(on_partitions_added='cold')"
                )
        return found

    def _tried(self, what: str, call: Callable[[], Result], stop: threading.Event) -> Result | None:
        """Call until it comes through; ``None`` when it is to stop.

        Raises:
            Unavailable: The deadline of the retries is over.
        """
        attempts = Attempts(self._means.retries, what)
        while True:
            try:
                return call()
            except Unavailable as error:
                if stop.wait(attempts.failed(error, self._means.clock())):
                    return None

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
            store = means.store
            loaded = self._tried(
                f"{partition}: looking for a checkpoint", lambda: self._newest(store, assigned, lineage), stop
            )
            state, found = (state, None) if loaded is None else loaded
            origin = self._origin(assigned) if found is None else found.origin
            writing = Writing(means.store, lineage, means.engine.layout, origin)
        else:
            origin = self._origin(assigned)
        return Held(
            state=state,
            origin=origin,
            next_offset=origin if found is None else found.next_offset,
            identity=identity,
            writing=writing,
            saved_at=-1 if found is None else found.next_offset,
            saved_since=means.clock(),
        )

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

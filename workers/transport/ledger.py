"""The one place where the threads meet: progress, who waits for it, and why everything ends.

============  ==========================================================================================
poller        adds and opens spans, waits for room, asks for partitions to be drained and released
agents        finish spans, from any thread
delivery      waits for finished spans, settles, commits, releases
anyone        fails: everybody who waits wakes up
============  ==========================================================================================
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Commit, Partition
from workers.transport.progress import Progress, Span
from workers.transport.settings import Limits
from workers.transport.slices import Records
from workers.transport.stats import PartitionStatus, TransportStats

Clock = Callable[[], float]

# Enough for an agent not to run dry while the next fetch is cut.
_WAITING_SLICES = 3
_LARGE_SLICE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the delivery thread has to do next.

    Attributes:
        releasing: Partitions to let go of; nothing else is asked for then.
        hurry: Somebody waits for what is finished to be durable and committed.
        stopping: Nothing will come any more.
    """

    releasing: frozenset[Partition]
    hurry: bool
    stopping: bool


class Ledger:
    """Progress shared between threads.

    Args:
        limits: When reading has to wait.
        clock: Seconds, monotonic.
        stats: Where dropped slices and delivery times are counted.

    Attributes:
        failure: Why the process has to end; None while all is well.
        group: The consumer's group metadata as the poller read it last; None before.
        is_stopping: True once the poller has ended in good order: nothing will come any more.
    """

    def __init__(self, limits: Limits, clock: Clock, stats: TransportStats) -> None:
        self._limits = limits
        self._clock = clock
        self._stats = stats
        self._progress = Progress()
        self._changed = threading.Condition()
        self._releasing: set[Partition] = set()
        self._hurries = 0
        self._abandoned = False
        self.failure: BaseException | None = None
        self.group: bytes | None = None
        self.is_stopping = False

    # -- anyone -----------------------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """The process has to end, for this reason; the first one stays."""
        with self._changed:
            if self.failure is None:
                self.failure = error
            self._changed.notify_all()

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, condition: Callable[[], object], timeout: float | None) -> bool:
        """Wait until ``condition()`` is true, or somebody failed; False when the time was over before."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self.failure is not None or condition(), timeout))

    def status(self, now: float) -> tuple[PartitionStatus, ...]:
        """How far each assigned partition is."""
        with self._changed:
            return tuple(
                PartitionStatus(
                    partition=partition,
                    position=track.position,
                    committed=track.committed,
                    open_slices=sum(span.is_open for span in track.spans),
                    oldest_open=track.oldest_age(now),
                    is_loading=track.note is None,
                )
                for partition, track in sorted(self._progress.tracks.items())
            )

    # -- poller -----------------------------------------------------------------------------------------------

    def assign(self, starts: Iterable[tuple[Partition, int]]) -> None:
        """Partitions begin, each at its offset."""
        with self._changed:
            for partition, start in starts:
                self._progress.assign(partition, start)

    def annotate(self, partition: Partition, note: str) -> None:
        """A partition's state is ready; its commits carry this note."""
        with self._changed:
            self._progress.annotate(partition, note)

    def position(self, partition: Partition) -> int | None:
        """The offset read next; None for a partition that is not assigned."""
        with self._changed:
            track = self._progress.tracks.get(partition)
            return None if track is None else track.position

    def add(self, records: Records, shares: int) -> Span | None:
        """Records were read, for so many agents; None when no agent will ever see them."""
        size = records.size
        with self._changed:
            if self._abandoned:
                return None
            return self._progress.add(
                records.partition,
                first=int(records.offsets[0]),
                end=records.next_offset,
                records=len(records),
                size=size,
                shares=shares,
            )

    def skip_to(self, partition: Partition, offset: int) -> None:
        """Everything before ``offset`` was read."""
        with self._changed:
            if not self._abandoned and partition in self._progress.tracks:
                self._progress.skip_to(partition, offset)
                self._changed.notify_all()

    def open(self, spans: Iterable[Span]) -> None:
        """These spans go to the agents now."""
        now = self._clock()
        with self._changed:
            for span in spans:
                self._progress.open(span, now)

    def has_room(self) -> bool:
        """True while agents and commits keep up."""
        progress, limits = self._progress, self._limits
        return (
            progress.open_slices < limits.open_slices
            and progress.open_bytes < limits.open_bytes
            and progress.uncommitted_records < limits.uncommitted_records
        )

    def has_appetite(self) -> bool:
        """True when no slice waits for an agent, or few large ones do.

        While small ones wait, to read on would only make more and smaller ones: what comes meanwhile is read
        together, so that slices grow with the load.
        """
        waiting = self._progress.waiting_slices
        return waiting == 0 or (
            waiting < _WAITING_SLICES and self._progress.waiting_records >= waiting * _LARGE_SLICE
        )

    def full(self) -> set[Partition]:
        """Partitions with as many unfinished slices as one may have."""
        limit = self._limits.open_slices_per_partition
        with self._changed:
            return {
                partition for partition, track in self._progress.tracks.items() if track.unfinished >= limit
            }

    def roomy(self, partitions: Iterable[Partition]) -> set[Partition]:
        """Those of ``partitions`` with at most half as many unfinished slices as one may have."""
        half = self._limits.open_slices_per_partition // 2
        with self._changed:
            tracks = self._progress.tracks
            return {
                partition
                for partition in partitions
                if partition in tracks and tracks[partition].unfinished <= half
            }

    def is_settled(self, partitions: Collection[Partition]) -> bool:
        """True when all that was read of these partitions is done and durable."""
        with self._changed:
            return all(map(self._progress.is_settled, partitions))

    def hurry(self, by: int) -> None:
        """One more (1) or one fewer (-1) waits for finished slices to become durable at once."""
        with self._changed:
            self._hurries += by
            self._changed.notify_all()

    def ask_release(self, partitions: Iterable[Partition]) -> None:
        """The delivery thread shall let go of these partitions."""
        with self._changed:
            self._releasing.update(partitions)
            self._changed.notify_all()

    def is_released(self, partitions: Collection[Partition]) -> bool:
        """True when it has."""
        with self._changed:
            return self._releasing.isdisjoint(partitions)

    # -- agents -----------------------------------------------------------------------------------------------

    def begin(self, span: Span) -> None:
        """An agent takes a span up."""
        with self._changed:
            self._progress.begin(span)
            self._changed.notify_all()

    def finish(self, span: Span, outputs: Sequence[OutputBatch]) -> None:
        """One agent has finished a span."""
        now = self._clock()
        with self._changed:
            self._progress.finish(span, outputs, now)
            if span.is_done:
                self._changed.notify_all()

    def abandon(self) -> None:
        """Agents won't finish any more: the finished prefixes are all there will be."""
        with self._changed:
            self._abandoned = True
            self._progress.drop_unfinished()
            self._changed.notify_all()

    # -- delivery ---------------------------------------------------------------------------------------------

    def next_work(self, *, takes_more: bool, is_pending: bool, timeout: float) -> Work:
        """Wait for something to do.

        Args:
            takes_more: False when finished spans have to wait.
            is_pending: True when something produced is not committed, so that a hurry means work.
            timeout: Return after so many seconds in any case.
        """

        def is_due() -> bool:
            return bool(
                self._releasing
                or self.is_stopping
                or (self._hurries and is_pending)
                or (takes_more and self._progress.has_fresh())
            )

        with self._changed:
            self._changed.wait_for(is_due, timeout)
            return Work(
                releasing=frozenset(self._releasing),
                hurry=bool(self._hurries) or self.is_stopping or self._is_filling_up(),
                stopping=self.is_stopping,
            )

    def take_fresh(self) -> list[Span]:
        """Finished spans to produce now, in order: from here on they count as produced."""
        with self._changed:
            return [] if self._releasing else self._progress.take_fresh()

    def _is_filling_up(self) -> bool:
        return self._progress.uncommitted_records * 2 > self._limits.uncommitted_records

    def settle(self) -> None:
        """All that was produced is durable."""
        now = self._clock()
        with self._changed:
            for span in self._progress.settle():
                if span.done_at is not None:
                    self._stats.delivery.observe(now - span.done_at)
            self._changed.notify_all()

    def rewind(self) -> None:
        """What was produced and is not durable must be produced again."""
        with self._changed:
            self._progress.rewind()

    def produced_commits(self) -> list[Commit]:
        """The offsets of all that was produced."""
        with self._changed:
            return self._progress.produced_commits()

    def durable_commits(self) -> list[Commit]:
        """The offsets of all that is durable."""
        with self._changed:
            return self._progress.durable_commits()

    def commit(self, commits: Iterable[Commit]) -> None:
        """These offsets are committed."""
        with self._changed:
            self._progress.commit(commits)
            self._stats.commits += 1
            self._changed.notify_all()

    def release(self, partitions: Collection[Partition]) -> None:
        """No commit of these partitions is running or will be: forget them."""
        with self._changed:
            self._stats.dropped += self._progress.drop(partitions)
            self._releasing.difference_update(partitions)
            self._changed.notify_all()

    def stop(self) -> None:
        """The delivery thread may end once it has nothing left to do."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify_all()

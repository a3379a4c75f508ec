"""How far each partition is: what was read, what is done, what is durable, what is committed.

Pure: no thread, no clock, no Kafka; :class:`~workers.transport.ledger.Ledger` shares one between threads. A span
moves through its partition's track in offset order::

    added ── opened ── finished by every agent ── produced ── durable ── committed: gone
                                 └─ only the contiguous finished prefix goes on ─┘
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Commit, Partition


@dataclass(slots=True, eq=False, kw_only=True)
class Span:
    """Offsets [first, end) of one partition: the records of one slice, or a stretch that holds no record.

    Attributes:
        partition: Where.
        first: The first offset.
        end: The offset after the last.
        records: How many records it holds.
        size: About how many bytes they take.
        shares: How many agents have not finished it.
        opened_at: When it was delivered to the agents; None before.
        is_begun: True once an agent has taken it up.
        done_at: When the last agent finished it; None before.
        outputs: What the agents left behind.
        is_dropped: True once its partition has left.
    """

    partition: Partition
    first: int
    end: int
    records: int
    size: int
    shares: int
    opened_at: float | None = None
    is_begun: bool = False
    done_at: float | None = None
    outputs: list[OutputBatch] = field(default_factory=list)
    is_dropped: bool = False

    @property
    def is_done(self) -> bool:
        """True when no agent works on it any more."""
        return self.shares == 0

    @property
    def is_open(self) -> bool:
        """True while it is with the agents."""
        return self.opened_at is not None and self.shares > 0 and not self.is_dropped

    @property
    def is_waiting(self) -> bool:
        """True while it is with the agents and none has taken it up."""
        return self.is_open and not self.is_begun


@dataclass(slots=True)
class Track:
    """One partition's spans that are not committed yet, and where its offsets stand.

    Attributes:
        position: The offset read next.
        committed: The offset committed last, or started from.
        note: What goes along with each commit; None while the state is loading: no commit before it is known.
        spans: In offset order.
        produced: How many leading spans were handed to the producer.
        durable: How many leading spans have durable outputs.
        unfinished: How many spans some agent has yet to finish, delivered or not.
    """

    position: int
    committed: int
    note: str | None = None
    spans: deque[Span] = field(default_factory=deque)
    produced: int = 0
    durable: int = 0
    unfinished: int = 0

    def done_prefix(self, start: int) -> list[Span]:
        """The contiguous finished spans from index ``start`` on."""
        return list(takewhile(lambda span: span.is_done, islice(self.spans, start, None)))

    def oldest_age(self, now: float) -> float | None:
        """Seconds since the first of the spans that are with the agents was delivered; None when none is."""
        return next(
            (now - span.opened_at for span in self.spans if span.is_open and span.opened_at is not None), None
        )


class Progress:
    """The tracks of all assigned partitions, and their sums.

    Attributes:
        open_slices: Spans with the agents.
        waiting_slices: Those of them that no agent has taken up.
        waiting_records: The records of these.
        open_bytes: What they take in memory.
        uncommitted_records: Records of finished spans whose offsets are not committed.
    """

    def __init__(self) -> None:
        self.tracks: dict[Partition, Track] = {}
        self.open_slices = 0
        self.waiting_slices = 0
        self.waiting_records = 0
        self.open_bytes = 0
        self.uncommitted_records = 0

    # -- reading ----------------------------------------------------------------------------------------------

    def assign(self, partition: Partition, start: int) -> None:
        """Begin a track at ``start``."""
        if partition in self.tracks:
            raise ValueError(f"{partition} is assigned already")
        self.tracks[partition] = Track(position=start, committed=start)

    def annotate(self, partition: Partition, note: str) -> None:
        """The state is ready: commits may happen, each with this note."""
        self.tracks[partition].note = note

    def add(  # noqa: PLR0913 -- what a span is
        self, partition: Partition, *, first: int, end: int, records: int, size: int, shares: int
    ) -> Span:
        """A span was read. Offsets between the position and ``first`` hold no record (markers, compaction)."""
        track = self.tracks[partition]
        if not track.position <= first < end:
            raise ValueError(f"{partition}: [{first}, {end}) does not follow position {track.position}")
        span = Span(partition=partition, first=first, end=end, records=records, size=size, shares=shares)
        track.spans.append(span)
        track.unfinished += not span.is_done
        track.position = end
        return span

    def skip_to(self, partition: Partition, offset: int) -> None:
        """Offsets from the position to ``offset`` hold no record: a span without records, born finished."""
        track = self.tracks[partition]
        if offset > track.position:
            self.add(partition, first=track.position, end=offset, records=0, size=0, shares=0)

    # -- agents -----------------------------------------------------------------------------------------------

    def open(self, span: Span, now: float) -> None:
        """The span is delivered to its agents."""
        if span.is_dropped:
            return
        span.opened_at = now
        self.open_slices += 1
        self.waiting_slices += 1
        self.waiting_records += span.records
        self.open_bytes += span.size

    def begin(self, span: Span) -> None:
        """An agent takes the span up."""
        if span.is_waiting:
            span.is_begun = True
            self.waiting_slices -= 1
            self.waiting_records -= span.records

    def finish(self, span: Span, outputs: Sequence[OutputBatch], now: float) -> None:
        """One agent has finished the span; nothing of a dropped one is kept."""
        if span.is_dropped:
            return
        if span.is_done:
            raise ValueError(
                f"{span.partition}: [{span.first}, {span.end}) was finished by every agent before"
            )
        self.begin(span)
        span.outputs.extend(outputs)
        if span.shares == 1:
            self.open_slices -= 1
            self.open_bytes -= span.size
            self.uncommitted_records += span.records
            self.tracks[span.partition].unfinished -= 1
            span.done_at = now
        span.shares -= 1

    # -- delivery ---------------------------------------------------------------------------------------------

    def has_fresh(self) -> bool:
        """True when :meth:`take_fresh` would return something."""
        return any(
            len(track.spans) > track.produced and track.spans[track.produced].is_done
            for track in self.tracks.values()
        )

    def take_fresh(self) -> list[Span]:
        """The finished spans whose turn it is to be produced, each partition's in order; they count as produced."""
        fresh: list[Span] = []
        for track in self.tracks.values():
            ready = track.done_prefix(track.produced)
            track.produced += len(ready)
            fresh += ready
        return fresh

    def settle(self) -> list[Span]:
        """All that was produced is durable; returns the spans for which that is new."""
        settled: list[Span] = []
        for track in self.tracks.values():
            settled += islice(track.spans, track.durable, track.produced)
            track.durable = track.produced
        return settled

    def rewind(self) -> None:
        """What was produced and is not durable must be produced again."""
        for track in self.tracks.values():
            track.produced = track.durable

    def is_settled(self, partition: Partition) -> bool:
        """True when no span of the partition waits for an agent or for durability."""
        track = self.tracks.get(partition)
        return track is None or track.durable == len(track.spans)

    # -- commits ----------------------------------------------------------------------------------------------

    def produced_commits(self) -> list[Commit]:
        """The offsets that would be right once all that was produced is durable."""
        return self._commits({partition: track.produced for partition, track in self.tracks.items()})

    def durable_commits(self) -> list[Commit]:
        """The offsets that may be committed now."""
        return self._commits({partition: track.durable for partition, track in self.tracks.items()})

    def _commits(self, lengths: dict[Partition, int]) -> list[Commit]:
        commits = []
        for partition, length in lengths.items():
            track = self.tracks[partition]
            if length and track.note is not None:
                commits.append(Commit(partition, track.spans[length - 1].end, track.note))
        return commits

    def commit(self, commits: Iterable[Commit]) -> None:
        """These offsets are committed; a commit of an earlier assignment changes nothing."""
        for partition, offset, _ in commits:
            track = self.tracks.get(partition)
            if track is None:
                continue
            while track.durable and track.spans[0].end <= offset:
                self.uncommitted_records -= track.spans.popleft().records
                track.produced -= 1
                track.durable -= 1
                track.committed = offset

    # -- leaving ----------------------------------------------------------------------------------------------

    def drop(self, partitions: Iterable[Partition]) -> int:
        """The partitions have left: forget them. Returns how many unfinished or uncommitted spans went along."""
        dropped = 0
        for partition in partitions:
            track = self.tracks.pop(partition, None)
            if track is not None:
                dropped += len(track.spans)
                self._drop(track.spans)
        return dropped

    def drop_unfinished(self) -> None:
        """Nothing more will be finished: only the finished prefixes go on."""
        for track in self.tracks.values():
            done = len(track.done_prefix(0))
            self._drop(islice(track.spans, done, None))
            track.spans = deque(islice(track.spans, done))
            track.unfinished = 0

    def _drop(self, spans: Iterable[Span]) -> None:
        for span in spans:
            if span.is_open:
                self.begin(span)
                self.open_slices -= 1
                self.open_bytes -= span.size
            elif span.is_done:
                self.uncommitted_records -= span.records
            span.is_dropped = True
            span.outputs.clear()

"""What the transport counts; plain numbers that telemetry reads whenever it likes."""

from bisect import bisect_left
from dataclasses import dataclass, field

from workers.transport.partitions import Partition

_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(slots=True)
class Histogram:
    """Durations in seconds, counted by upper bound; the last count is for those beyond every bound."""

    bounds: tuple[float, ...] = _BOUNDS
    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class TransportStats:
    """Counters since the start; each has one writer, so reading needs no lock.

    Attributes:
        records: Records read.
        slices: Slices cut.
        stalls: Times that reading stood still because agents held too much.
        pauses: Partitions paused.
        rewound: Records dropped because the client had read them before.
        dropped: Slices dropped because their partition left before they were done.
        truncated: Offsets that retention removed before this group read them.
        undrained: Partitions that left with unfinished slices, after the drain's time.
        commits: Commits that came through, transactions included.
        commit_failures: Commits that failed and were tried again.
        transactions: Transactions begun.
        aborts: Transactions aborted.
        outputs: Records handed to the producer, again after an abort included.
        rebalances: Times partitions were assigned, revoked or lost.
        delivery: From a slice's done() to its outputs being durable.
        answered_at: When a broker was heard last, on the transport's clock; None before the first time.
    """

    records: int = 0
    slices: int = 0
    stalls: int = 0
    pauses: int = 0
    rewound: int = 0
    dropped: int = 0
    truncated: int = 0
    undrained: int = 0
    commits: int = 0
    commit_failures: int = 0
    transactions: int = 0
    aborts: int = 0
    outputs: int = 0
    rebalances: int = 0
    delivery: Histogram = field(default_factory=Histogram)
    answered_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How far one assigned partition is.

    Attributes:
        partition: Which one.
        position: The offset read next.
        committed: The offset committed last, or started from.
        open_slices: Slices at the agents, not done.
        oldest_open: Seconds since the oldest of them was delivered; None when there is none.
        is_loading: True until ``on_assign`` returned.
    """

    partition: Partition
    position: int
    committed: int
    open_slices: int
    oldest_open: float | None
    is_loading: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportStatus:
    """How the transport is, at one moment.

    Attributes:
        partitions: Those assigned, in order.
        poller_is_alive: False before the start, and after the thread that reads has ended.
        delivery_is_alive: The same of the thread that writes.
        answered: Seconds since a broker was heard; None before the first time.
        failure: Why the process is ending; None while all is well.
    """

    partitions: tuple[PartitionStatus, ...]
    poller_is_alive: bool
    delivery_is_alive: bool
    answered: float | None
    failure: BaseException | None

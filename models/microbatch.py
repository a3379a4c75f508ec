"""Micro-batching: when rows that wait leave together for the runtime, and how many."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from features.errors import Misdeclared


class Leave(StrEnum):
    """Why a micro-batch left."""

    FULL = "full"
    DUE = "due"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """A batch leaves when the runtime is free, or is held for more rows for a bounded time.

    Args:
        max_rows: Most rows of one call of the runtime; also the largest bucket.
        max_wait: How long the oldest row may wait for company while the runtime is free; none by
            default, so that a batch is what came while the runtime was busy.
    """

    max_rows: int = 1024
    max_wait: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise Misdeclared(f"BatchRule max_rows is {self.max_rows}; at least 1")
        if self.max_wait < timedelta(0):
            raise Misdeclared(f"BatchRule max_wait is {self.max_wait}; use timedelta(0) for none")

    @property
    def buckets(self) -> tuple[int, ...]:
        """The batch sizes that the runtime ever sees: powers of two, and ``max_rows``."""
        sizes = [1 << power for power in range(self.max_rows.bit_length()) if 1 << power < self.max_rows]
        return (*sizes, self.max_rows)

    def bucket(self, rows: int) -> int:
        """The size to which a batch of ``rows`` is padded."""
        return next(size for size in self.buckets if size >= rows)

    def leaves(self, rows: int, oldest: float, now: float) -> Leave | None:
        """Whether a batch leaves a free runtime's queue now, and why.

        Args:
            rows: Rows that wait.
            oldest: When the oldest of them began to wait, s.
            now: On the same clock, s.
        """
        if rows >= self.max_rows:
            return Leave.FULL
        if not rows:
            return None
        if not self.max_wait:
            return Leave.IDLE
        return Leave.DUE if now - oldest >= self.max_wait.total_seconds() else None

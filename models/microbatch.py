"""Micro-batching: when rows that wait leave together for the runtime, and how many."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from features.errors import Misdeclared

ROW_MULTIPLE = 16
"""Batch sizes are multiples of this: vector code then treats every row alike, and a row's outputs keep
their bits whatever batch it is in (docs/decisions/001-outputs-do-not-depend-on-the-batch.md)."""


class Leave(StrEnum):
    """Why a micro-batch left."""

    FULL = "full"
    DUE = "due"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """A batch leaves when the runtime is free, or is held for more rows for a bounded time.

    Args:
        max_rows: Most rows of one call of the runtime; 1 runs every row alone.
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
        """The batch sizes that the runtime ever sees, rising; the last one holds ``max_rows``.

        Powers of two from 16, and ``max_rows`` rounded up to a multiple of 16; of ``max_rows=1`` 1 alone.
        """
        if self.max_rows == 1:
            return (1,)
        largest = -(-self.max_rows // ROW_MULTIPLE) * ROW_MULTIPLE
        sizes = [1 << power for power in range(4, largest.bit_length()) if 1 << power < largest]
        return (*sizes, largest)

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

"""Where lanes of events are folded: each is of one partition, and of one shard of its keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns, Int64s
from features.engine import Engine, PartitionState
from features.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The events of a batch that are folded one after another: of one partition, of one shard of its keys.

    Args:
        shard: Its number.
        partition: Its number.
        places: ``(n,) int64`` which of the batch's events they are; ``None`` if all.
        columns: The events.
        heights: ``(n,) int64`` the partition's watermark after each, ms, of other shards' events as well; ``None``
            where there are none.
    """

    shard: int
    partition: int
    places: Int64s | None
    columns: Columns
    heights: Int64s | None


@dataclass(frozen=True, slots=True)
class LaneRows:
    """Rows of a lane.

    Args:
        rows: Of the scored ones among its events.
        digests: ``(r,) uint64``.
    """

    rows: Rows
    digests: NDArray[np.uint64]


class Folder(Protocol):
    """Where lanes are folded, each on its own state."""

    @property
    def shards(self) -> int:
        """How many shards the keys are split into."""
        ...

    def submit(self, lanes: Sequence[Lane]) -> Callable[[], Sequence[LaneRows]]:
        """Fold the lanes of a batch, in the order submitted; the rows are had by the call."""
        ...


class LocalFolder:
    """Folds at once, in this process."""

    shards = 1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._states: dict[int, PartitionState] = {}

    def fold(self, partition: int, columns: Columns, heights: Int64s | None) -> LaneRows:
        """Fold the next events of a partition."""
        if partition not in self._states:
            self._states[partition] = self._engine.new_partition()
        rows = self._states[partition].process(columns, heights)
        return LaneRows(rows, rows.digests())

    def submit(self, lanes: Sequence[Lane]) -> Callable[[], Sequence[LaneRows]]:
        """Fold each."""
        folded = [self.fold(lane.partition, lane.columns, lane.heights) for lane in lanes]
        return lambda: folded

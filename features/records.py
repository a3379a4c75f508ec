"""Raw records of one partition, as Kafka or an archive hands them over."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_TIMESTAMP = -1
"""A record that carries no Kafka timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """``n`` raw records of one partition in offset order.

    Args:
        values: Bytes of each record, ``None`` for a tombstone.
        keys: Kafka key of each record, or ``None``.
        offsets: ``(n,) int64``.
        timestamps: ``(n,) int64`` Kafka timestamps, ms since the epoch, or `NO_TIMESTAMP`.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

"""Raw records of one partition, as Kafka or an archive hands them over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

NO_TIMESTAMP = -1
"""The timestamp of a record that carries none."""


class RawRecords(Protocol):
    """``n`` raw records of one partition in offset order."""

    def __len__(self) -> int: ...

    @property
    def values(self) -> Sequence[bytes | None]:
        """Bytes of each record, ``None`` for a tombstone."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """Kafka key of each record, or ``None``."""
        ...

    @property
    def offsets(self) -> NDArray[np.int64]:
        """``(n,) int64``."""
        ...

    @property
    def timestamps(self) -> NDArray[np.int64]:
        """``(n,) int64`` Kafka timestamps, ms since the epoch, or `NO_TIMESTAMP`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Raw records that are at hand; see `RawRecords`."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

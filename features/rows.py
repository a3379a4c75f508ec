"""Rows: what a model is given, and where each row came from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.kernels.digests import digest_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """``r`` rows of features.

    Args:
        block: ``(r, columns) float32``, missing values as declared.
        ids: ``(r, columns) int64`` category ids.
        events: ``(r,) int64`` index, in the columns that were processed, of the event behind each row.
    """

    block: NDArray[np.float32]
    ids: NDArray[np.int64]
    events: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.events)

    def alone(self, row: int) -> "Rows":
        """One row, copied, of the first of some events."""
        return Rows(
            block=self.block[row : row + 1].copy(),
            ids=self.ids[row : row + 1].copy(),
            events=np.zeros(1, np.int64),
        )

    def digests(self) -> NDArray[np.uint64]:
        """``(r,) uint64`` XXH64 of each row's bits: the block's, then the ids'."""
        digests = np.empty(len(self), np.uint64)
        digest_rows(self.block, self.ids, digests)
        return digests

"""Vocabulary: the category ids that a training span knew, as the small codes that a model embeds."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from features.errors import Misdeclared
from features.kernels.fold import MISSING_ID
from models.lineage import by_frequency

Int64s = NDArray[np.int64]

UNKNOWN, MISSING, FIRST_KNOWN = range(3)
"""Codes of an id that training never saw, of a missing value, and of the first known id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Known ids in code order: the first has code 2.

    Args:
        ids: Each once, the missing id not among them.
    """

    ids: tuple[int, ...]
    _sorted: Int64s = field(init=False, repr=False, compare=False)
    _codes: Int64s = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ids = np.array([MISSING_ID, *self.ids], np.int64)
        order = np.argsort(ids, kind="stable")
        in_order = ids[order]
        object.__setattr__(self, "_sorted", np.append(in_order, np.iinfo(np.int64).max))
        object.__setattr__(self, "_codes", np.append(order + MISSING, UNKNOWN))
        twice = in_order[1:][in_order[1:] == in_order[:-1]]
        if len(twice):
            raise Misdeclared(
                f"Vocabulary has the id {twice[0]} twice; list every known id once, and {MISSING_ID} (missing) never"
            )

    @classmethod
    def learn(cls, ids: Int64s) -> "Vocabulary":
        """Of the ids of a training span, most frequent first; equal counts by id."""
        return cls(ids=tuple(by_frequency(ids)[0].tolist()))

    def __len__(self) -> int:
        """How many codes there are, unknown and missing among them."""
        return len(self.ids) + FIRST_KNOWN

    def encode(self, ids: Int64s) -> Int64s:
        """``(n,) int64`` ids to ``(n,) int64`` codes."""
        places = self._sorted.searchsorted(ids)  # the largest integer stands last: there is always a place
        return np.where(self._sorted[places] == ids, self._codes[places], UNKNOWN)

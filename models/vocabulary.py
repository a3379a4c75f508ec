"""Vocabulary: the category ids that a training span knew, as the small codes that a model embeds."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from features.errors import Misdeclared
from features.kernels.codes import encode_ids
from features.kernels.fold import MISSING_ID
from models.lineage import by_frequency

Int64s = NDArray[np.int64]

UNKNOWN, MISSING, FIRST_KNOWN = range(3)
"""Codes of an id that training never saw (the kernels' 0), of a missing value, and of the first known id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Known ids in code order: the first has code 2.

    Args:
        ids: Each once, the missing id not among them.
    """

    ids: tuple[int, ...]
    known: Int64s = field(init=False, repr=False, compare=False)
    """``(k,) int64`` the ids and the missing one, rising."""
    codes: Int64s = field(init=False, repr=False, compare=False)
    """``(k,) int64`` the code of each."""

    def __post_init__(self) -> None:
        ids = np.array([MISSING_ID, *self.ids], np.int64)
        order = np.argsort(ids, kind="stable")
        in_order = ids[order]
        object.__setattr__(self, "known", in_order)
        object.__setattr__(self, "codes", order + MISSING)
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
        codes = np.empty(len(ids), np.int64)
        encode_ids(self.known, self.codes, ids, codes)
        return codes

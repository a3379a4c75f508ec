"""Keyed state of one feature set on one partition: the fold of the partition's log.

Nothing but arrays: slots of fixed size, an arena of blocks, and a few counters.
"""

import os

import numpy as np

from features.columns import Int64s
from features.kernels.arena import FREE_LISTS as ARENA_LISTS
from features.kernels.fold import SLOT_BYTES
from features.kernels.memory import address_of
from features.kernels.process import (
    ARENA,
    ARENA_NEEDED,
    ARENA_WORDS,
    COUNTERS,
    DIRECTORY,
    FREE_LISTS,
    HEADS,
    HEADS_NEEDED,
    HEADS_WORDS,
    MARKS,
    TOTALS,
)
from features.kernels.saving import load_records
from features.kernels.slots import COUNTER_WORDS, DIRECTORY_WORDS, LIVE_KEYS, SEGMENTS, USED_SLOTS
from features.plan import Tables
from features.saving import SavedPart, SetSaving

_RESERVED = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
"""Bytes of address space for each array. Untouched pages take no memory, so a state grows without a copy."""


class KeyedState:
    """Slots, arena and table of one feature set; see `features.kernels.slots` for the layout.

    Args:
        tables: Of the feature set.
        row: ``(11,) int64`` where the kernel finds it, written; see `features.kernels.process`.
    """

    def __init__(self, tables: Tables, row: Int64s) -> None:
        self.row = row
        self._slot_words = int(tables.rules[SLOT_BYTES]) // 8
        self._heads = _reserve(self._slot_words)
        self._arena = _reserve(1)
        self._marks = np.zeros(len(self._heads) // self._slot_words, np.uint8)
        self._free = np.zeros(ARENA_LISTS, np.int64)
        self._free[0] = 1
        self._directory = np.zeros(DIRECTORY_WORDS, np.int64)
        self._counters = np.zeros(COUNTER_WORDS, np.int64)
        self._totals = np.zeros(max(1, len(tables.lanes)), np.int64)
        self._note_addresses()

    def grow(self) -> None:
        """Make the room that the last slice was found to need."""
        row = self.row
        self._heads = _with_room(self._heads, self._used_words, int(row[HEADS_NEEDED]))
        self._arena = _with_room(self._arena, int(self._free[0]), int(row[ARENA_NEEDED]))
        slots = len(self._heads) // self._slot_words
        if len(self._marks) < slots:
            self._marks = np.append(self._marks, np.zeros(slots - len(self._marks), np.uint8))
        self._note_addresses()

    @property
    def keys(self) -> int:
        """How many keys it holds."""
        return int(self._counters[LIVE_KEYS // 8])

    @property
    def size(self) -> int:
        """Bytes in use."""
        return 8 * (self._used_words + int(self._free[0]))

    def begin_saving(self, number: int, set_row: Int64s, *, everything: bool) -> SetSaving:
        """A saving of it as it is now; see `features.saving`."""
        return SetSaving(number, set_row, self.row, everything=everything)

    def load(self, set_row: Int64s, part: SavedPart) -> None:
        """Take over a part's keys, in place of what is held of them."""
        words, row = len(part.records), self.row
        row[HEADS_NEEDED] = self._used_words + part.keys * self._slot_words
        row[ARENA_NEEDED] = int(self._free[0]) + 3 * words + 8 * (self.keys + part.keys) + 32 * SEGMENTS
        self.grow()
        load_records(set_row, row, address_of(part.records), words)

    @property
    def _used_words(self) -> int:
        return int(self._counters[USED_SLOTS // 8]) * self._slot_words

    def _note_addresses(self) -> None:
        """Where everything is, for the kernel."""
        self.row[[HEADS, HEADS_WORDS]] = address_of(self._heads), len(self._heads)
        self.row[[ARENA, ARENA_WORDS]] = address_of(self._arena), len(self._arena)
        others = (self._free, self._directory, self._counters, self._marks, self._totals)
        self.row[[FREE_LISTS, DIRECTORY, COUNTERS, MARKS, TOTALS]] = list(map(address_of, others))


def _reserve(words: int) -> Int64s:
    """At least ``words`` zeroed words, and as much address space behind them as can be had."""
    for size in (max(2 * words, _RESERVED // 8), 4 * words, 2 * words):
        try:
            return np.zeros(size, np.int64)
        except MemoryError:  # address space is limited here: grow by copying
            continue
    return np.zeros(words, np.int64)


def _with_room(array: Int64s, used: int, needed: int) -> Int64s:
    """The array if it has ``needed`` words, else a larger one with its first ``used`` words."""
    if len(array) >= needed:
        return array
    larger = _reserve(needed)
    larger[:used] = array[:used]
    return larger

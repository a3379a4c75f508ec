"""Keyed state of one feature set on one partition: the fold of the partition's log.

Nothing but arrays: slots of fixed size, an arena of blocks, and a few counters. So a snapshot is
their used prefixes, and a state restored from it goes on with the same bits.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columns import Bytes, Int64s
from features.kernels.arena import FREE_LISTS
from features.kernels.fold import SLOT_BYTES, fold_slice, sweep
from features.kernels.slots import COUNTER_WORDS, DIRECTORY_WORDS, LIVE_KEYS, USED_SLOTS, find_slots
from features.plan import Tables

_RESERVED = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
"""Bytes of address space for each array. Untouched pages take no memory, so a state grows without a copy."""
_SWEEPS_PER_EVENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The entity key of each event of a slice.

    Args:
        address: Of the bytes that ``refs`` point into.
        refs: ``(n,) int64``: ``offset << 24 | length``, -1 for null.
        buffer: What keeps the bytes alive.
    """

    address: int
    refs: Int64s
    buffer: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the kernel folds of a slice of ``n`` events.

    Args:
        times: ``(n,) int64`` ms.
        watermarks: ``(n,) int64`` ms, running maximum of the partition's event times.
        rows: ``(n,) int64`` the row that each event fills, or -1.
        masks: ``(masks, n) uint8``.
        values: ``(values, n) float64``.
    """

    times: Int64s
    watermarks: Int64s
    rows: Int64s
    masks: Bytes
    values: NDArray[np.float64]


class KeyedState:
    """Slots, arena and table of one feature set; see `features.kernels.slots` for the layout."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._slot_words = int(tables.rules[SLOT_BYTES]) // 8
        self._heads = _reserve(self._slot_words)
        self._arena = _reserve(1)
        self._free = np.zeros(FREE_LISTS, np.int64)
        self._free[0] = 1
        self._directory = np.zeros(DIRECTORY_WORDS, np.int64)
        self._counters = np.zeros(COUNTER_WORDS, np.int64)
        self._totals = np.zeros(max(1, len(tables.lanes)), np.int64)
        self._note_addresses()

    def fold(self, keys: Keys, inputs: Inputs, block: NDArray[np.float32], ids: Int64s) -> None:
        """Read and fold a slice in log order, writing its rows into ``block`` and ``ids``."""
        n = len(inputs.times)
        self._make_room(n, keys.refs)
        slots, scratch = np.empty(n, np.int64), np.empty(n, np.int64)
        heads, arena, free, directory, counters, totals = self._addresses
        tables = self.tables
        find_slots(
            keys.address, keys.refs, heads, 8 * self._slot_words, arena, free, directory, counters,
            scratch, slots,
        )  # fmt: skip
        fold_slice(
            slots, inputs.times, inputs.watermarks, inputs.rows, inputs.masks, inputs.values,
            heads, arena, free, tables.groups, tables.lanes, tables.cells, tables.outputs, tables.fills,
            tables.rules, totals, block, ids,
        )  # fmt: skip
        if n:
            sweep(
                heads, arena, free, directory, counters, tables.groups, tables.cells, tables.rules,
                int(inputs.watermarks[-1]), _SWEEPS_PER_EVENT * n,
            )  # fmt: skip

    @property
    def keys(self) -> int:
        """How many keys it holds."""
        return int(self._counters[LIVE_KEYS // 8])

    @property
    def size(self) -> int:
        """Bytes in use."""
        return 8 * (int(self._counters[USED_SLOTS // 8]) * self._slot_words + int(self._free[0]))

    def snapshot(self) -> dict[str, Int64s]:
        """A copy of everything, by name."""
        return {
            "heads": self._heads[: int(self._counters[USED_SLOTS // 8]) * self._slot_words].copy(),
            "arena": self._arena[: int(self._free[0])].copy(),
            "free": self._free.copy(),
            "directory": self._directory.copy(),
            "counters": self._counters.copy(),
        }

    def restore(self, snapshot: Mapping[str, Int64s]) -> None:
        """Become what the snapshot was taken of."""
        self._heads = _with_room(snapshot["heads"], len(snapshot["heads"]), len(snapshot["heads"]) + 1)
        self._arena = _with_room(snapshot["arena"], len(snapshot["arena"]), len(snapshot["arena"]) + 1)
        self._free = snapshot["free"].copy()
        self._directory = snapshot["directory"].copy()
        self._counters = snapshot["counters"].copy()
        self._note_addresses()

    def _note_addresses(self) -> None:
        """Where the arrays are; asking them each time takes longer than a small slice."""
        arrays = (self._heads, self._arena, self._free, self._directory, self._counters, self._totals)
        self._addresses = tuple(int(array.ctypes.data) for array in arrays)

    def _make_room(self, n: int, refs: Int64s) -> None:
        """Every event may be a new key that fills its rings: no kernel ever runs out."""
        used = int(self._counters[USED_SLOTS // 8]) * self._slot_words
        heads = _with_room(self._heads, used, used + n * self._slot_words)
        keys = n + int((np.maximum(refs, 0) & 0xFFFFFF).sum()) // 8
        table = 8 * (self.keys + n) + 32 * 256
        used = int(self._free[0])
        arena = _with_room(self._arena, used, used + keys + table + n * self.tables.words_per_event)
        if heads is not self._heads or arena is not self._arena:
            self._heads, self._arena = heads, arena
            self._note_addresses()


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

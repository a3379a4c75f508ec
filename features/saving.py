"""A partition's state written out while events go on changing it, and taken over again.

::

    saving = state.begin_saving()          # of every key, as it is now
    while not saving.is_done:
        saving.step(KEYS_A_STEP)           # and between the steps: state.process(columns)
        saving.take()                      # what is ready to be stored

    state.load(saved)                      # into a new partition, then its later changes
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from features.columns import Columns, Int64s
from features.kernels.saving import AT, END, KEYS, NEEDED, USED, begin_saving, save_before, save_some

BUFFER_WORDS = 1 << 18
"""Words of a part, unless one record has more: 2 MiB."""

KEYS_A_STEP = 2000
"""Keys saved at a time while events wait: about a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPart:
    """Records of some keys of one feature set.

    Args:
        number: Which of the engine's keyed feature sets.
        keys: How many.
        records: ``(words,) int64``; see `features.kernels.saving`.
    """

    number: int
    keys: int
    records: Int64s


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A partition's state.

    Args:
        watermark: Its, ms.
        parts: Every key.
    """

    watermark: int
    parts: list[SavedPart]


class SetSaving:
    """The saving of one keyed feature set.

    Args:
        number: Which one.
        set_row: ``(17,) int64`` as the kernels take it.
        state_row: ``(11,) int64`` the same.
        everything: Whether every key is saved, or those changed since the last saving began.
    """

    def __init__(self, number: int, set_row: Int64s, state_row: Int64s, *, everything: bool) -> None:
        self._number, self._set, self._state = number, set_row, state_row
        self._parts: list[SavedPart] = []
        self._buffer, self._progress = np.empty(BUFFER_WORDS, np.int64), np.empty(5, np.int64)
        self.keys = int(begin_saving(state_row, everything, self._progress))

    @property
    def is_done(self) -> bool:
        """Whether every slot was looked at."""
        return bool(self._progress[AT] >= self._progress[END])

    def step(self, keys: int) -> None:
        """Write up to so many keys."""
        while not save_some(self._set, self._state, keys, self._buffer, self._progress):
            self._turn_over()

    def keep(self, columns: Columns) -> None:
        """Write what a slice is about to change."""
        while not save_before(
            self._set, self._state, columns.base, columns.words, columns.valid, self._buffer, self._progress
        ):
            self._turn_over()

    def abandon(self) -> None:
        """Look at no more slots."""
        self._progress[AT] = self._progress[END]

    def take(self) -> list[SavedPart]:
        """The parts that are full; all of them once it is done."""
        if self.is_done:
            self._turn_over()
        parts, self._parts = self._parts, []
        return parts

    def _turn_over(self) -> None:
        """The buffer becomes a part, the next one has room for the record that had none."""
        used = int(self._progress[USED])
        if used:
            self._parts.append(
                SavedPart(number=self._number, keys=int(self._progress[KEYS]), records=self._buffer[:used])
            )
            self._progress[[USED, KEYS]] = 0
            self._buffer = np.empty(max(BUFFER_WORDS, int(self._progress[NEEDED])), np.int64)
        elif len(self._buffer) < self._progress[NEEDED]:
            self._buffer = np.empty(int(self._progress[NEEDED]), np.int64)


class Saving:
    """The saving of a partition; made by `features.engine.PartitionState.begin_saving`.

    Args:
        watermark: Of the partition at the beginning, ms.
        sets: Its keyed feature sets.

    Attributes:
        keys: How many there are to save.
    """

    def __init__(self, watermark: int, sets: Sequence[SetSaving]) -> None:
        self.watermark, self._sets = watermark, tuple(sets)
        self.keys = sum(each.keys for each in sets)

    @property
    def is_done(self) -> bool:
        """Whether all of it is written."""
        return all(each.is_done for each in self._sets)

    def step(self, keys: int) -> None:
        """Write up to so many keys of each feature set."""
        for each in self._sets:
            each.step(keys)

    def keep(self, columns: Columns) -> None:
        """Write what a slice is about to change."""
        for each in self._sets:
            each.keep(columns)

    def take(self) -> list[SavedPart]:
        """What was written since the last call and is not going to change: once it is done, the rest."""
        return [part for each in self._sets for part in each.take()]

    def abandon(self) -> None:
        """It is not wanted any more: events need not be kept from changing what it is of."""
        for each in self._sets:
            each.abandon()

"""The hand-written loop's features: dense tiles for each user, one Numba kernel.

A row of ``state`` is one user::

    newest | current tile, sums of the closed tiles (3), ring of tiles (3 each) | ... the next window

The three lanes are count, amount and payments online. The closed tiles are summed, oldest to newest, only
when a user's current tile changes.
"""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

LENGTHS_MS = np.array([600_000, 3_600_000, 86_400_000])
TILES_MS = np.array([30_000, 300_000, 7_200_000])
COLUMNS = 15

_LANES = 3
_RINGS = LENGTHS_MS // TILES_MS + 1
_STARTS = 1 + np.concatenate(([0], np.cumsum(1 + _LANES + _LANES * _RINGS)))
_WORDS = int(_STARTS[-1])
_STARTS = _STARTS[:-1]
_NEVER = -1.0

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


@numba.njit(inline="always", error_model="numpy")
def _close(user: Float64s, at: int, tile: int, ring: int) -> None:
    """Make ``tile`` the current one: forget what lies between, sum what is closed and in the window."""
    current = int(user[at])
    for gone in range(max(current + 1, tile - ring + 1), tile + 1):
        place = at + 4 + 3 * (gone % ring)
        user[place] = user[place + 1] = user[place + 2] = 0.0
    events = amount = online = 0.0
    place = (tile + 1) % ring
    for _ in range(ring - 1):
        entry = at + 4 + 3 * place
        events += user[entry]
        amount += user[entry + 1]
        online += user[entry + 2]
        place = place + 1 if place + 1 < ring else 0
    user[at], user[at + 1], user[at + 2], user[at + 3] = tile, events, amount, online


@numba.njit(
    "void(i8[::1], i8[::1], f8[::1], f8[::1], f8[:,::1], f4[:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def read_and_fold(
    slots: Int64s,
    times: Int64s,
    amounts: Float64s,
    onlines: Float64s,
    state: Float64s,
    block: NDArray[np.float32],
) -> None:
    """Write each event's row, as of before the event, then count it."""
    for i in range(slots.size):
        user, time, row = state[slots[i]], times[i], block[i]
        is_new = user[0] == _NEVER
        row[0] = amounts[i]
        row[1] = (time // 3_600_000) % 24
        row[14] = -1.0 if is_new else (time - user[0]) / 1000.0
        for window in range(3):
            at, ring, tile = _STARTS[window], _RINGS[window], time // TILES_MS[window]
            if is_new:
                user[at] = tile
            elif tile > user[at]:
                _close(user, at, tile, ring)
            entry = at + 4 + 3 * (tile % ring)
            events = user[at + 1] + user[entry]
            amount = user[at + 2] + user[entry + 1]
            row[2 + window] = events
            row[5 + window] = amount
            row[8 + window] = amount / events if events > 0 else 0.0
            row[11 + window] = (user[at + 3] + user[entry + 2]) / events if events > 0 else 0.0
            user[entry] += 1.0
            user[entry + 1] += amounts[i]
            user[entry + 2] += onlines[i]
        user[0] = time


class _Slots(dict[str, int]):
    """Numbers users as they come."""

    def __missing__(self, user: str) -> int:
        self[user] = slot = len(self)
        return slot


class UserWindows:
    """The features of all users; events have to come in order, as they do in this benchmark."""

    def __init__(self) -> None:
        self._slots = _Slots()
        self._state = _fresh(1024)

    def rows(self, events: Sequence[Any]) -> NDArray[np.float32]:
        """``(events, 15) float32``, in the order of the benchmark pipeline's columns."""
        slots = np.array([self._slots[event.user_id] for event in events])
        while len(self._slots) > len(self._state):
            self._state = np.concatenate([self._state, _fresh(len(self._state))])
        times = np.array([event.ts for event in events])
        amounts = np.array([event.amount for event in events])
        onlines = np.array([event.is_online for event in events], np.float64)
        block = np.empty((len(events), COLUMNS), np.float32)
        read_and_fold(slots, times, amounts, onlines, self._state, block)
        return block


def _fresh(users: int) -> Float64s:
    state = np.zeros((users, _WORDS))
    state[:, 0] = _NEVER
    return state

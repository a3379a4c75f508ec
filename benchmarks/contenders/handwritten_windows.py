"""The hand-written loop's features: dense tiles for each card, one Numba kernel.

A row of ``state`` is one card::

    newest, newest payment | current tile, sums of the closed tiles (2), ring of tiles (2 each) | ... the next window

The two lanes are count and amount. The closed tiles are summed, oldest to newest, only when a card's current tile
changes. A payment that is a little older than the one before is read as of the newer one and counted in its own tile.
"""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

LENGTHS_MS = np.array([600_000, 3_600_000, 86_400_000])
TILES_MS = np.array([30_000, 300_000, 7_200_000])
NEVER_SECONDS = 86_400.0
COLUMNS = 12

_LANES = 2
_RINGS = LENGTHS_MS // TILES_MS + 1
_STARTS = 2 + np.concatenate(([0], np.cumsum(1 + _LANES + _LANES * _RINGS)))
_WORDS = int(_STARTS[-1])
_STARTS = _STARTS[:-1]
_NEVER = -1.0

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


@numba.njit(inline="always", error_model="numpy")
def _close(card: Float64s, at: int, tile: int, ring: int) -> None:
    """Make ``tile`` the current one: forget what lies between, sum what is closed and in the window."""
    current = int(card[at])
    for gone in range(max(current + 1, tile - ring + 1), tile + 1):
        place = at + 3 + 2 * (gone % ring)
        card[place] = card[place + 1] = 0.0
    events = amount = 0.0
    place = (tile + 1) % ring
    for _ in range(ring - 1):
        entry = at + 3 + 2 * place
        events += card[entry]
        amount += card[entry + 1]
        place = place + 1 if place + 1 < ring else 0
    card[at], card[at + 1], card[at + 2] = tile, events, amount


@numba.njit(
    "void(i8[::1], i8[::1], f8[::1], f8[:,::1], f4[:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def read_and_fold(
    slots: Int64s, times: Int64s, amounts: Float64s, state: Float64s, block: NDArray[np.float32]
) -> None:
    """Write each payment's row, as of before it, then count it; an event without amount only moves the time on."""
    for i in range(slots.size):
        card, time, row = state[slots[i]], times[i], block[i]
        now = max(time, np.int64(card[0]))
        card[0] = now
        if np.isnan(amounts[i]):
            continue
        row[0] = amounts[i]
        row[1] = (time // 3_600_000) % 24
        row[11] = NEVER_SECONDS if card[1] == _NEVER else (now - card[1]) / 1000.0
        card[1] = max(card[1], time)
        for window in range(3):
            at, ring = _STARTS[window], _RINGS[window]
            current, tile = now // TILES_MS[window], time // TILES_MS[window]
            if current > card[at]:
                _close(card, at, current, ring)
            entry = at + 3 + 2 * (current % ring)
            events = card[at + 1] + card[entry]
            amount = card[at + 2] + card[entry + 1]
            row[2 + window] = events
            row[5 + window] = amount
            row[8 + window] = amount / events if events > 0 else 0.0
            if tile < current:
                if tile <= current - ring:
                    continue
                entry = at + 3 + 2 * (tile % ring)
                card[at + 1] += 1.0
                card[at + 2] += amounts[i]
            card[entry] += 1.0
            card[entry + 1] += amounts[i]


class _Slots(dict[str, int]):
    """Numbers cards as they come."""

    def __missing__(self, card: str) -> int:
        self[card] = slot = len(self)
        return slot


class CardWindows:
    """The features of all cards; it knows no late events, and in this benchmark there are none."""

    def __init__(self) -> None:
        self._slots = _Slots()
        self._state = _fresh(1024)

    def rows(self, events: Sequence[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """``(events, 12) float32``, in the order of the pipeline's columns, and which rows are of payments."""
        slots = np.array([self._slots[event.card] for event in events])
        while len(self._slots) > len(self._state):
            self._state = np.concatenate([self._state, _fresh(len(self._state))])
        times = np.array([event.ts for event in events])
        amounts = np.array([event.amount for event in events])
        block = np.empty((len(events), COLUMNS), np.float32)
        read_and_fold(slots, times, amounts, self._state, block)
        return block, ~np.isnan(amounts)


def _fresh(cards: int) -> Float64s:
    """Nothing was ever: current tiles of -1 close to nothing."""
    state = np.zeros((cards, _WORDS))
    state[:, [0, 1, *_STARTS]] = _NEVER
    return state

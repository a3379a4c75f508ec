"""The same features in plain Python, an event at a time, as a Faust user would write them."""

from collections import deque
from dataclasses import dataclass, field

from benchmarks.contenders.handwritten_windows import LENGTHS_MS, NEVER_SECONDS, TILES_MS

_WINDOWS = tuple(zip(LENGTHS_MS.tolist(), TILES_MS.tolist(), strict=True))

Tile = list[float]
"""Number of the tile, count, amount."""


@dataclass(slots=True)
class Card:
    """The newest time, that of a payment, and for each window its tiles that hold something, oldest first."""

    newest: int = -1
    paid: int = -1
    windows: tuple[deque[Tile], ...] = field(default_factory=lambda: tuple(deque() for _ in _WINDOWS))

    def read(self) -> list[float]:
        """Counts, sums and means over the three windows, then seconds since the last payment."""
        time, counts, sums, means = self.newest, [], [], []
        for tiles, (length, tile) in zip(self.windows, _WINDOWS, strict=True):
            oldest = (time - length) // tile
            while tiles and tiles[0][0] < oldest:
                tiles.popleft()
            count = amount = 0.0
            for each in tiles:
                count += each[1]
                amount += each[2]
            counts.append(count)
            sums.append(amount)
            means.append(amount / count if count else 0.0)
        since = NEVER_SECONDS if self.paid < 0 else (time - self.paid) / 1000
        return [*counts, *sums, *means, since]

    def fold(self, time: int, amount: float) -> None:
        """Count a payment; it may be a little older than the one before."""
        for tiles, (_, tile) in zip(self.windows, _WINDOWS, strict=True):
            number = time // tile
            at = len(tiles)
            while at and tiles[at - 1][0] > number:
                at -= 1
            if not at or tiles[at - 1][0] != number:
                tiles.insert(at, [number, 0.0, 0.0])
                at += 1
            own = tiles[at - 1]
            own[1] += 1
            own[2] += amount
        self.paid = max(self.paid, time)


class PlainWindows:
    """The features of all cards, in memory."""

    def __init__(self) -> None:
        self._cards: dict[str, Card] = {}

    def row(self, name: str, time: int, amount: float | None) -> list[float]:
        """The row of a payment as of before it, which is counted then; of a chargeback, which has no amount, none."""
        card = self._cards.get(name)
        if card is None:
            card = self._cards[name] = Card()
        card.newest = max(card.newest, time)
        if amount is None:
            return []
        row = [amount, time // 3_600_000 % 24, *card.read()]
        card.fold(time, amount)
        return row

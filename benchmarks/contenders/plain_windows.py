"""The same features in plain Python, an event at a time, as a Faust user would write them."""

from collections import deque
from dataclasses import dataclass, field

from benchmarks.contenders.handwritten_windows import LENGTHS_MS, TILES_MS

_WINDOWS = tuple(zip(LENGTHS_MS.tolist(), TILES_MS.tolist(), strict=True))

Tile = list[float]
"""Number of the tile, count, amount, payments online."""


@dataclass(slots=True)
class User:
    """The newest time, and for each window its tiles that hold something, oldest first."""

    newest: int = -1
    windows: tuple[deque[Tile], ...] = field(default_factory=lambda: tuple(deque() for _ in _WINDOWS))

    def read(self, time: int) -> list[float]:
        """Counts, sums, means and shares online over the three windows, then seconds since the last payment."""
        counts, sums, means, shares = [], [], [], []
        for tiles, (length, tile) in zip(self.windows, _WINDOWS, strict=True):
            oldest = (time - length) // tile
            while tiles and tiles[0][0] < oldest:
                tiles.popleft()
            count = amount = online = 0.0
            for each in tiles:
                count += each[1]
                amount += each[2]
                online += each[3]
            counts.append(count)
            sums.append(amount)
            means.append(amount / count if count else 0.0)
            shares.append(online / count if count else 0.0)
        since = -1.0 if self.newest < 0 else (time - self.newest) / 1000
        return [*counts, *sums, *means, *shares, since]

    def fold(self, time: int, amount: float, online: bool) -> None:  # noqa: FBT001 - a field of the event
        """Count a payment."""
        for tiles, (_, tile) in zip(self.windows, _WINDOWS, strict=True):
            number = time // tile
            if not tiles or tiles[-1][0] != number:
                tiles.append([number, 0.0, 0.0, 0.0])
            newest = tiles[-1]
            newest[1] += 1
            newest[2] += amount
            newest[3] += online
        self.newest = time


class PlainWindows:
    """The features of all users, in memory."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def row(self, user_id: str, time: int, amount: float, *, online: bool) -> list[float]:
        """The row of an event as of before it; the event is counted then."""
        user = self._users.get(user_id)
        if user is None:
            user = self._users[user_id] = User()
        row = [amount, time // 3_600_000 % 24, *user.read(time)]
        user.fold(time, amount, online)
        return row

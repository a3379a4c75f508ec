"""Windows over event time: sawtooth, that is exact at the head and cut at a tile at the tail."""

from dataclasses import dataclass
from datetime import timedelta

from features.errors import Misdeclared
from features.kernels.rings import MAX_TILES

_TILES = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
)
_LONGEST = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Window:
    """At time ``now`` it covers ``[⌊(now − length) / tile⌋ · tile, now]``, tiles aligned to the epoch.

    So it holds at least ``length`` and less than ``length + tile``; its cost does not grow with its
    length. The rule is Chronon's (https://chronon.ai, *sawtooth windows*).

    Args:
        length: From 1 second to 90 days.
        tile: What ``length`` is a multiple of; by default the longest of 1 s to 1 day that fits twelve
            times, and 1 s for windows shorter than 12 s.
    """

    length: timedelta
    tile: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        for name in ("length", "tile"):
            if not isinstance(getattr(self, name), timedelta):
                raise Misdeclared(f"Window {name} is {getattr(self, name)!r}; write timedelta(...)")
        if not timedelta(seconds=1) <= self.length <= _LONGEST:
            raise Misdeclared(f"Window length {short_name(self.length)} is not between 1 second and 90 days")
        if self.tile == timedelta(0):
            object.__setattr__(self, "tile", self._default_tile())
        if self.tile < timedelta(seconds=1) or self.tile % timedelta(seconds=1):
            raise Misdeclared(f"Window tile {short_name(self.tile)} is not a whole number of seconds")
        if self.tile > self.length:
            raise Misdeclared(
                f"Window tile {short_name(self.tile)} is longer than its length {short_name(self.length)}; make it shorter"
            )
        if self.length % self.tile:
            raise Misdeclared(
                f"Window length {short_name(self.length)} is no multiple of its tile {short_name(self.tile)}; choose a tile that divides it"
            )
        if self.length // self.tile > MAX_TILES:
            raise Misdeclared(
                f"Window {short_name(self.length)} has {self.length // self.tile} tiles of {short_name(self.tile)}; at most {MAX_TILES}: use a longer tile"
            )

    def _default_tile(self) -> timedelta:
        fitting = [tile for tile in _TILES if 12 * tile <= self.length and not self.length % tile]
        return fitting[-1] if fitting else _TILES[0]

    @property
    def length_ms(self) -> int:
        """The length in milliseconds."""
        return self.length // timedelta(milliseconds=1)

    @property
    def tile_ms(self) -> int:
        """The tile in milliseconds."""
        return self.tile // timedelta(milliseconds=1)


def as_window(window: "Window | timedelta") -> Window:
    """A window as it is, a length with its default tile."""
    if isinstance(window, Window):
        return window
    if not isinstance(window, timedelta):
        raise Misdeclared(
            f"window={window!r} is no length of time; write timedelta(...), or Window(length, tile)"
        )
    return Window(window)


def short_name(length: timedelta) -> str:
    """``1h``, ``90s``, ``7d``: the length in the largest unit that divides it."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if not length % timedelta(seconds=unit):
            return f"{length // timedelta(seconds=unit)}{name}"
    return f"{length // timedelta(milliseconds=1)}ms"

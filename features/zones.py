"""Time zones as tables of offsets, so that local time is one search over columns.

The offsets come from Python's `zoneinfo`; `digest` names them, since time-zone data changes.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from features.errors import Misdeclared

_FIRST, _LAST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_STEPS = ((datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=2)), (_LAST, timedelta(days=14)))
"""How far apart offsets are looked at. Changes closer together are missed: Gaza's and Hebron's of October 2072."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """Offsets of one zone from 1900 to 2100; outside, those of the nearest year hold.

    Args:
        name: Its IANA name.
        starts: ``(k,) int64`` ms since the epoch from which each offset holds; the first is the minimum.
        offsets: ``(k,) int64`` ms east of UTC.
    """

    name: str
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def local(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """``(n,) int64`` ms on a local clock, for UTC times in ms."""
        if len(self.offsets) == 1:
            return times + self.offsets[0]
        return times + self.offsets[np.searchsorted(self.starts, times, side="right") - 1]

    @property
    def digest(self) -> str:
        """Names these offsets, for fingerprints."""
        return hashlib.sha256(self.starts.tobytes() + self.offsets.tobytes()).hexdigest()[:16]


@lru_cache(maxsize=64)
def zone(name: str) -> Zone:
    """The zone of this IANA name."""
    try:
        info = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Misdeclared(
            f"Time zone {name!r} is unknown; use an IANA name such as 'America/New_York'"
        ) from error
    starts, offsets = [np.iinfo(np.int64).min], [_FIRST.astimezone(info).utcoffset()]
    is_fixed = info.utcoffset(None) is not None  # the offset of a time without a date
    at = _LAST if is_fixed else _FIRST
    for until, step in _STEPS:
        while at < until:
            later = at + step
            if later.astimezone(info).utcoffset() != offsets[-1]:
                change = _change(info, at, later)
                starts.append(int(change.timestamp()) * 1000)
                offsets.append(change.astimezone(info).utcoffset())
            at = later
    return Zone(
        name=name, starts=np.array(starts), offsets=np.array([_milliseconds(each) for each in offsets])
    )


def _milliseconds(offset: timedelta | None) -> int:
    return int((offset or timedelta(0)).total_seconds()) * 1000


def _change(info: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second at which the offset of ``after`` holds."""
    low, high = int(before.timestamp()), int(after.timestamp())
    new = after.astimezone(info).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, info).utcoffset() == new:
            high = middle
        else:
            low = middle
    return datetime.fromtimestamp(high, UTC)

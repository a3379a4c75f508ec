"""Wall clocks and UTC, for whole columns: instants are int64 milliseconds since the epoch, UTC.

Offsets come from ``zoneinfo``, once per hour that occurs, because pyarrow's own conversion needs the operating
system's time-zone database, which a small container lacks. So a zone must change its clocks on a full UTC hour
(St. John's, at a half past, would be wrong for that half hour).
"""

from calendar import timegm
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Milliseconds = NDArray[np.int64]


def next_time(after: Milliseconds, clock: Milliseconds, zone: ZoneInfo) -> Milliseconds:
    """The next instants, at most a day later, at which the clocks of ``zone`` show ``clock`` (ms since midnight).

    A time that the zone repeats is its first; one that it skips is read with the offset before the change
    (PEP 495, ``fold=0``). A time equal to that of ``after`` is the next day's.
    """
    before = utc_offset(after, zone)
    unchanged = after + DAY - (after + before - clock) % DAY
    change = utc_offset(unchanged, zone) - before
    changed = unchanged - change
    skipped = utc_offset(changed, zone) != before + change
    return np.where(skipped, unchanged, changed)


def utc_offset(instants: Milliseconds, zone: ZoneInfo) -> Milliseconds:
    """What the clocks of ``zone`` are ahead of UTC at each instant, in ms; west of Greenwich it is negative."""
    hours, row = np.unique(instants // HOUR, return_inverse=True)
    ahead = [timegm(datetime.fromtimestamp(h * 3600, zone).timetuple()) - h * 3600 for h in hours.tolist()]
    return np.array(ahead, dtype=np.int64)[row] * 1000

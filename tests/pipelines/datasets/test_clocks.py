from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.datasets.clocks import DAY, HOUR, MINUTE, next_time, utc_offset

ZONES = [
    "America/New_York",
    "America/Chicago",
    "America/Phoenix",
    "Pacific/Honolulu",
    "America/Puerto_Rico",
    "Asia/Kolkata",
]
# The year without the nights of a change: then "the next" has one meaning only.
QUIET = st.datetimes(datetime(2013, 1, 1), datetime(2013, 12, 30)).filter(  # noqa: DTZ001 - made aware below
    lambda t: (t.month, t.day) not in {(3, 9), (3, 10), (11, 2), (11, 3)}
)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def next_by_zoneinfo(after: datetime, clock: timedelta, zone: ZoneInfo) -> datetime:
    midnight = after.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    days = (midnight + timedelta(days=day) + clock for day in (0, 1))
    return next(t for d in days if (t := d.replace(tzinfo=zone).astimezone(UTC)) > after)


def next_of(after: str, clock: str, zone: str) -> str:
    hours, minutes = map(int, clock.split(":"))
    found = next_time(np.array([ms(after)]), np.array([hours * HOUR + minutes * MINUTE]), ZoneInfo(zone))
    return datetime.fromtimestamp(int(found[0]) / 1000, UTC).strftime("%Y-%m-%dT%H:%MZ")


@given(QUIET, st.integers(0, 24 * 60 - 1), st.sampled_from(ZONES))
def test_the_next_time_is_the_one_that_zoneinfo_finds(after: datetime, minutes: int, zone: str) -> None:
    after = after.replace(second=0, microsecond=0, tzinfo=UTC)
    found = next_time(
        np.array([int(after.timestamp()) * 1000]), np.array([minutes * MINUTE]), ZoneInfo(zone)
    )[0]
    expected = next_by_zoneinfo(after, timedelta(minutes=minutes), ZoneInfo(zone))
    assert found == int(expected.timestamp()) * 1000


@given(QUIET, st.sampled_from(ZONES))
def test_an_equal_time_is_the_next_days(after: datetime, zone: str) -> None:
    start = np.array([int(after.replace(tzinfo=UTC, microsecond=0).timestamp()) * 1000])
    clock = (start + utc_offset(start, ZoneInfo(zone))) % DAY
    assert next_time(start, clock, ZoneInfo(zone))[0] == start[0] + DAY


@pytest.mark.parametrize(
    ("clock", "found"),
    [
        ("01:59", "2013-03-10T06:59Z"),
        ("02:30", "2013-03-10T07:30Z"),  # skipped: read as 2:30 EST, shown as 3:30 EDT
        ("03:00", "2013-03-10T07:00Z"),
        ("21:00", "2013-03-11T01:00Z"),
    ],
)
def test_in_spring_a_skipped_time_is_read_with_the_offset_before(clock: str, found: str) -> None:
    assert next_of("2013-03-09T22:00-05:00", clock, "America/New_York") == found


@pytest.mark.parametrize(
    ("clock", "found"),
    [
        ("00:59", "2013-11-03T04:59Z"),
        ("01:30", "2013-11-03T05:30Z"),  # repeated: the first, still daylight saving time
        ("02:00", "2013-11-03T07:00Z"),
        ("21:00", "2013-11-04T02:00Z"),
    ],
)
def test_in_autumn_a_repeated_time_is_its_first(clock: str, found: str) -> None:
    assert next_of("2013-11-02T22:00-04:00", clock, "America/New_York") == found


@given(st.datetimes(datetime(2013, 1, 1), datetime(2014, 1, 2)), st.sampled_from(ZONES[:-1]))  # noqa: DTZ001
def test_offsets_are_those_of_zoneinfo_at_every_minute(at: datetime, zone: str) -> None:
    instant = at.replace(second=0, microsecond=0, tzinfo=UTC)
    expected = instant.astimezone(ZoneInfo(zone)).utcoffset()
    found = utc_offset(np.array([int(instant.timestamp()) * 1000]), ZoneInfo(zone))[0]
    assert timedelta(milliseconds=int(found)) == expected

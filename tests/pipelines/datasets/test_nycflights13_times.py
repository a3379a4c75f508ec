"""The oracle is plain Python, ``csv`` and ``zoneinfo``, over every flight.

It starts from the local clocks of the CSV (year to minute, ``dep_time``, ``arr_time``), where the dataset starts from
``time_hour`` and the delays: the two meet only if dates, zones and daylight saving time are right in both.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pipelines.datasets.nycflights13 import ZONES

Row = dict[str, Any]
Times = dict[str, dict[str, datetime]]

NEW_YORK = ZoneInfo("America/New_York")
MINUTE, DAY, MOST_TAXI = timedelta(minutes=1), timedelta(days=1), timedelta(hours=4)
NEVER_ON_A_CLOCK = "2013-03-10T02:00:00Z-B6-35"
IN_A_REPEATED_HOUR = "2013-11-02T20:00:00Z-VX-413"


def clock(hhmm: str) -> time:
    return time(int(hhmm) // 100 % 24, int(hhmm) % 100)  # 2400 is midnight


def on(day: date, clock: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, clock, zone).astimezone(UTC)


@pytest.fixture(scope="module")
def arrivals(flights: list[Row]) -> list[Row]:
    return [row for row in flights if row["arr_delay"] != "NA"]


@pytest.fixture(scope="module")
def zones(airports: dict[str, Row]) -> dict[str, ZoneInfo]:
    known = {faa: row["tzone"] for faa, row in airports.items() if "/" in row["tzone"]}
    caribbean = dict.fromkeys(["BQN", "PSE", "SJU", "STT"], "America/Puerto_Rico")
    return {faa: ZoneInfo(zone) for faa, zone in (known | caribbean).items()}


def test_a_flight_is_published_sixty_minutes_before_its_scheduled_departure(
    flights: list[Row], times: Times
) -> None:
    for row in flights:
        day = date(int(row["year"]), int(row["month"]), int(row["day"]))
        departure = on(day, time(int(row["hour"]), int(row["minute"])), NEW_YORK)
        assert times["scheduled"][row["id"]] == departure - timedelta(minutes=60)


def test_a_scheduled_arrival_is_the_next_such_time_at_the_destination(
    flights: list[Row], times: Times, zones: dict[str, ZoneInfo]
) -> None:
    blocks = set()
    for row in flights:
        due = times["due"][row["id"]]
        assert due.astimezone(zones[row["dest"]]).time() == clock(row["sched_arr_time"])
        blocks.add((due - times["scheduled"][row["id"]]) / MINUTE - 60)
    assert (min(blocks), max(blocks)) == (50, 700)


def test_a_flight_leaves_when_the_clocks_of_new_york_show_its_dep_time(
    flights: list[Row], times: Times
) -> None:
    left = [row for row in flights if row["dep_delay"] != "NA"]
    for row in left:
        assert times["departed"][row["id"]].astimezone(NEW_YORK).time() == clock(row["dep_time"])


def test_a_flight_arrives_when_the_clocks_at_its_destination_show_its_arr_time(
    arrivals: list[Row], times: Times, zones: dict[str, ZoneInfo]
) -> None:
    others = {
        row["id"]
        for row in arrivals
        if times["arrived"][row["id"]].astimezone(zones[row["dest"]]).time() != clock(row["arr_time"])
    }
    assert others == {NEVER_ON_A_CLOCK}


def test_an_arrival_has_the_one_date_that_fits_departure_and_air_time(
    arrivals: list[Row], times: Times, zones: dict[str, ZoneInfo]
) -> None:
    twice = set()
    for row in arrivals:
        if row["id"] == NEVER_ON_A_CLOCK:
            continue
        zone = zones[row["dest"]]
        landed = times["departed"][row["id"]] + int(row["air_time"]) * MINUTE
        shown = clock(row["arr_time"])
        days = {t.astimezone(zone).date() for t in (landed, landed + MOST_TAXI)}
        possible = {on(day, when, zone) for day in days for when in (shown, shown.replace(fold=1))}
        possible = {t for t in possible if timedelta() < t - landed < MOST_TAXI}
        assert times["arrived"][row["id"]] == min(possible)
        if len(possible) > 1:
            twice.add(row["id"])
    assert twice == {IN_A_REPEATED_HOUR}


def test_what_is_neither_flight_nor_delay_is_5_to_235_minutes_of_taxi(
    arrivals: list[Row], times: Times
) -> None:
    taxi = {
        (times["arrived"][row["id"]] - times["departed"][row["id"]]) / MINUTE - int(row["air_time"])
        for row in arrivals
    }
    assert (min(taxi), max(taxi)) == (5, 235)


@pytest.mark.parametrize(
    ("name", "departed", "arrived"),
    [
        pytest.param(
            "2013-01-01T14:00:00Z-HA-51",
            "2013-01-01T08:57-05:00",
            "2013-01-01T15:16-10:00",
            id="Honolulu in winter",
        ),
        pytest.param(
            "2013-07-31T14:00:00Z-HA-51",
            "2013-07-31T09:56-04:00",
            "2013-07-31T14:46-10:00",
            id="Honolulu in summer",
        ),
        pytest.param(
            "2013-01-09T14:00:00Z-HA-51", "2013-01-10T06:41-05:00", "2013-01-10T12:42-10:00", id="a day later"
        ),
        pytest.param(
            "2013-01-02T04:00:00Z-B6-739",
            "2013-01-01T23:53-05:00",
            "2013-01-02T04:25-04:00",
            id="over midnight",
        ),
        pytest.param(
            "2013-03-10T02:00:00Z-B6-713",
            "2013-03-09T23:17-05:00",
            "2013-03-10T03:44-04:00",
            id="no change there",
        ),
        pytest.param(
            NEVER_ON_A_CLOCK, "2013-03-09T23:06-05:00", "2013-03-10T03:03-04:00", id="in the skipped hour"
        ),
        pytest.param(
            "2013-11-02T20:00:00Z-VX-413",
            "2013-11-02T22:17-04:00",
            "2013-11-03T01:14-07:00",
            id="repeated hour",
        ),
    ],
)
def test_it_leaves_and_arrives_at(name: str, departed: str, arrived: str, times: Times) -> None:
    assert times["departed"][name] == datetime.fromisoformat(departed)
    assert times["arrived"][name] == datetime.fromisoformat(arrived)


def test_two_arrive_later_than_24_hours_after_they_were_scheduled(times: Times) -> None:
    late = {name for name, there in times["arrived"].items() if there - times["scheduled"][name] > DAY}
    assert late == {"2013-01-09T14:00:00Z-HA-51", "2013-09-20T22:00:00Z-AA-177"}


def test_a_flight_is_scheduled_before_it_leaves_and_leaves_before_it_arrives(times: Times) -> None:
    assert all(left > times["scheduled"][name] for name, left in times["departed"].items())
    assert all(there > times["departed"][name] for name, there in times["arrived"].items())


def test_the_zone_of_a_destination_fits_its_offset_and_its_longitude(
    flights: list[Row], airports: dict[str, Row], zones: dict[str, ZoneInfo]
) -> None:
    winter = datetime(2013, 1, 1, tzinfo=UTC)
    for dest in {row["dest"] for row in flights} & airports.keys():
        offset = (winter.astimezone(zones[dest]).utcoffset() or timedelta()) / timedelta(hours=1)
        assert offset == float(airports[dest]["tz"])
        assert abs(offset - float(airports[dest]["lon"]) / 15) < 1.5


def test_the_stated_zones_are_of_the_destinations_that_the_airports_lack(
    flights: list[Row], airports: dict[str, Row]
) -> None:
    lacking = [row["dest"] for row in flights if row["dest"] not in airports]
    assert set(lacking) == set(ZONES)
    assert len(lacking) == 7_602

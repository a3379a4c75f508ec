"""A recorded stream of every pipeline: those of the catalog, discovered, and a user's file."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from pipelines import catalog
from pipelines.pipeline import Pipeline
from tests.workers import anyones

USERS = "a user's file"
PIPELINES = [*catalog.names(), USERS]
EVENTS = 4200
_SPOILED = 97
"""One of so many records is cut in two, so that it is no JSON."""


@dataclass(frozen=True)
class Recording:
    """A pipeline and events of it.

    Args:
        reference: What a command finds the pipeline by.
        events: ``key, value, time``, as they are published.
    """

    reference: str
    pipeline: Pipeline
    events: pa.Table


def recording(name: str, folder: Path) -> Recording:
    """The first events of a pipeline, some of them spoiled; ``folder`` is for a user's file."""
    if name != USERS:
        pipeline = catalog.load(name)
        return Recording(name, pipeline, _spoiled(_example(name)))
    file = anyones.write_folder(folder)
    return Recording(str(file), catalog.load(str(file)), _spoiled(_machines()))


@cache
def _example(name: str) -> pa.Table:
    pipeline = catalog.load(name)
    assert pipeline.example is not None, f"pipeline {name} of the catalog has no example events"
    return pipeline.example().slice(0, EVENTS).combine_chunks()


@cache
def _machines() -> pa.Table:
    found = anyones.events(EVENTS)
    pairs = list(anyones.keyed(found))
    return pa.table(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
            "time": pa.array(range(len(pairs)), pa.int64()),
        }
    )


def _spoiled(events: pa.Table) -> pa.Table:
    values = events["value"].to_pylist()
    for place in range(_SPOILED // 2, len(values), _SPOILED):
        values[place] = values[place][: len(values[place]) // 2]
        assert not _is_json(values[place])
    return events.set_column(events.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True

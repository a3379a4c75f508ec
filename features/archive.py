"""Recorded events as Arrow tables and Parquet files, raw or typed.

A *raw* archive holds records as Kafka had them, with the columns of `ARCHIVE`: what replay computes from
it equals what a worker computed, bit for bit. A *typed* table has a column for each field of the
schema, and may have ``partition`` and ``offset``; it is what a data lake has.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from features.codecs.arrow import column_of
from features.errors import Misdeclared
from features.kernels.murmur import place_keys
from features.records import NO_TIMESTAMP, RawRecords, Records
from features.schema import Field

ARCHIVE = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


def is_raw(schema: pa.Schema) -> bool:
    """Whether a table holds raw records rather than typed events."""
    return set(ARCHIVE.names) <= set(schema.names)


def read_events(path: Path | str) -> pa.Table:
    """Every Parquet file of a folder, or one file."""
    try:
        return ds.dataset(path, format="parquet", exclude_invalid_files=False).to_table()
    except FileNotFoundError as error:
        raise Misdeclared(f"There are no recorded events at {path}: {error}") from error
    except pa.ArrowInvalid as error:
        raise Misdeclared(
            f"{path} is no Parquet: {error}; give a Parquet file, a folder of them, or JSON lines (.jsonl, .ndjson, .json)"
        ) from error


def partitions(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The table's partitions, each in offset order; one, 0, where it names none."""
    if "partition" not in table.schema.names or not len(table):
        yield 0, table
        return
    for number in sorted(pc.unique(table["partition"]).to_pylist()):
        part = table.filter(pc.equal(table["partition"], number))
        if "offset" in part.schema.names:
            part = part.sort_by("offset")
        yield number, part


def records_of(table: pa.Table) -> Records:
    """Raw records of one partition."""
    timestamps = table["timestamp"].cast(pa.int64()).fill_null(NO_TIMESTAMP)
    return Records(
        values=table["value"].to_pylist(),
        keys=table["key"].to_pylist(),
        offsets=table["offset"].to_numpy(),
        timestamps=timestamps.to_numpy(),
    )


def as_recorded(events: pa.Table, key: Field, partitions: int) -> pa.Table:
    """Events with the partition that each has, or would have, in a topic; recorded ones stay as they are.

    Where no partition is named it is the one that publishing puts the event on: by murmur2 of its key, in the order of
    the table. What never was in Kafka (``key, value, time``) becomes an archive; it carries no Kafka timestamp, so
    none of it is too far ahead of one.

    Args:
        events: Raw, typed, or ``key, value, time``.
        key: The field that is the partition key.
        partitions: How many the topic has.
    """
    names = set(events.schema.names)
    if "partition" in names:
        return events
    if names != {"key", "value", "time"}:
        return events.append_column("partition", pa.array(_places(_texts(events, key), partitions)))
    places = _places(events["key"].cast(pa.binary()), partitions)
    offsets = np.empty(len(events), np.int64)
    for partition in range(partitions):
        mine = np.flatnonzero(places == partition)
        offsets[mine] = np.arange(len(mine))
    return pa.table(
        {
            "partition": places,
            "offset": offsets,
            "timestamp": pa.nulls(len(events), pa.int64()),
            "key": events["key"],
            "value": events["value"],
        },
        schema=ARCHIVE,
    )


def _texts(events: pa.Table, key: Field) -> pa.ChunkedArray:
    """The Kafka keys of typed events; null where the key is not there, or is no key."""
    nothing = pa.nulls(len(events), pa.binary())
    try:
        column = column_of(events, key)
        texts = nothing if column is None else pc.cast(pc.cast(column, pa.string()), pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # decoding will say what is wrong with it
        texts = nothing
    return pa.chunked_array([texts])


def _places(keys: pa.ChunkedArray, partitions: int) -> NDArray[np.int32]:
    """``(n,) int32`` the partition of each key; 0 where there is none."""
    places = [np.empty(0, np.int32)]
    for chunk in keys.chunks:
        _, ends, data = chunk.buffers()
        texts = np.frombuffer(data or b"\0", np.uint8)
        bounds = np.frombuffer(ends, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        mine = np.empty(len(chunk), np.int32)
        place_keys(texts.ctypes.data, bounds, partitions, mine)
        places.append(np.where(chunk.is_valid(), mine, np.int32(0)))
    return np.concatenate(places)


def to_archive(partition: int, records: RawRecords) -> pa.Table:
    """Raw records as a table."""
    return pa.table(
        {
            "partition": np.full(len(records), partition, np.int32),
            "offset": records.offsets,
            "timestamp": pa.array(records.timestamps, mask=records.timestamps == NO_TIMESTAMP),
            "key": pa.array(records.keys, pa.binary()),
            "value": pa.array(records.values, pa.binary()),
        },
        schema=ARCHIVE,
    )

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

from features.errors import Misdeclared
from features.records import NO_TIMESTAMP, RawRecords, Records

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
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise Misdeclared(
            f"No recorded events at {path}: {error}; give a Parquet file or a folder of them"
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


def as_recorded(events: pa.Table) -> pa.Table:
    """Events that were never in Kafka (``key, value, time``) as an archive of one partition, in their order.

    They carry no Kafka timestamp, so none of them is too far ahead of one. What is recorded or typed
    already stays as it is.
    """
    if set(events.schema.names) != {"key", "value", "time"}:
        return events
    n = len(events)
    return pa.table(
        {
            "partition": np.zeros(n, np.int32),
            "offset": np.arange(n),
            "timestamp": pa.nulls(n, pa.int64()),
            "key": events["key"],
            "value": events["value"],
        },
        schema=ARCHIVE,
    )


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

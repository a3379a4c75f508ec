"""Recorded events as Arrow tables and Parquet files, raw or typed.

A *raw* archive holds records as Kafka had them, with the columns of `ARCHIVE`: what replay computes from
it equals what a worker computed, bit for bit. A *typed* table has a column for each field of the
schema, and may have ``partition`` and ``offset``; it is what a data lake has.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.byte_column import NONE, ByteColumn
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


def records_of(batch: pa.RecordBatch, offsets: NDArray[np.int64]) -> Records:
    """Raw records; what carries no Kafka timestamp is not too far ahead of one."""
    timestamps = np.full(len(batch), NO_TIMESTAMP)
    if "timestamp" in batch.schema.names:
        timestamps = batch["timestamp"].cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy()
    return Records(
        values=batch["value"].cast(pa.binary()).to_pylist(),
        keys=_byte_column(batch["key"].cast(pa.binary())),
        offsets=offsets,
        timestamps=timestamps,
    )


def _byte_column(column: pa.Array) -> ByteColumn:
    """The same bytes where Arrow has them."""
    _, ends, data = column.buffers()
    bounds = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    table = np.empty((len(column), 2), np.int64)
    table[:, 0] = bounds[:-1] + (data.address if data else 0)
    table[:, 1] = np.diff(bounds)
    if column.null_count:
        table[column.is_null().to_numpy(zero_copy_only=False), 1] = NONE
    return ByteColumn(table, column)


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

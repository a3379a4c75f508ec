"""Events that never were in Kafka, as a topic would hold them."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from features.archive import ARCHIVE, records_of
from features.recorded import Placer, RecordedTable
from features.records import Records
from features.schema import Schema


def archive(events: pa.Table, schema: Schema, partitions: int) -> pa.Table:
    """An archive of ``key, value, time``, in the order of the events."""
    placer, batches = Placer(events.schema, schema[schema.key], partitions), []
    for batch in RecordedTable(events).batches(events.schema.names):
        places, offsets = placer.place(batch)
        columns = [places, offsets, pa.nulls(len(batch), pa.int64()), batch["key"], batch["value"]]
        batches.append(pa.record_batch(list(map(pa.array, columns)), schema=ARCHIVE))
    return pa.Table.from_batches(batches, ARCHIVE)


def parts(archived: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Each partition's own, in order of offset."""
    for number in pc.unique(archived["partition"]).sort().to_pylist():
        yield number, archived.filter(pc.equal(archived["partition"], number)).sort_by("offset")


def logs(events: pa.Table, schema: Schema, partitions: int) -> Iterator[tuple[int, Records]]:
    """The records of each partition."""
    for number, part in parts(archive(events, schema, partitions)):
        (batch,) = part.combine_chunks().to_batches()
        yield number, records_of(batch, batch["offset"].to_numpy())

"""Recorded events, batch by batch, each with the partition and offset that it has, or would have, in a topic.

::

    recorded = in_log_order(RecordedFiles.at(path))    # or RecordedTable(table)
    placer = Placer(recorded.schema, key=schema["user"], partitions=3)
    for batch in recorded.batches(recorded.schema.names):
        placer.place(batch)                            # partitions, offsets

A source holds raw records (`features.archive`), typed events, or ``key, value, time``: what never was in Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.archive import is_raw
from features.codecs.arrow import column_of
from features.codecs.judge import LONGEST_RECORD
from features.columns import Int64s
from features.errors import Misdeclared
from features.kernels.lanes import ascend, number_events
from features.kernels.murmur import place_keys
from features.schema import Field

Int32s = NDArray[np.int32]

BATCH_ROWS = 32_768
"""Events that are read, folded and written at a time; rows do not depend on it."""

MOST_PARTITIONS = 2**20
UNPLACED = {"key", "value", "time"}
"""Columns of records that never were in Kafka."""


class Recorded(Protocol):
    """Recorded events that can be read again and again."""

    @property
    def schema(self) -> pa.Schema:
        """Of all of them."""
        ...

    @property
    def rows(self) -> int:
        """How many there are."""
        ...

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Of each part, by a name for people."""
        ...

    def has_nulls(self, name: str) -> bool:
        """Whether a column may hold nulls; found without reading it."""
        ...

    def has_extremes(self, name: str) -> bool:
        """Whether a column may hold an infinite number or a text of more than `LONGEST_RECORD` bytes; found the same way."""
        ...

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, up to `BATCH_ROWS` events at a time, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """Events in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """Of the table."""
        return self.table.schema

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Of the table."""
        return {"events": self.table.schema}

    @property
    def rows(self) -> int:
        """Of the table."""
        return len(self.table)

    def has_nulls(self, name: str) -> bool:
        """Whether the column does."""
        column = self.table[name]
        if pa.types.is_dictionary(column.type) and any(
            chunk.dictionary.null_count for chunk in column.chunks
        ):
            return True
        return bool(column.null_count)

    def has_extremes(self, name: str) -> bool:
        """Whether the column does, or its texts have so many bytes together."""
        column = self.table[name]
        if pa.types.is_floating(column.type):
            return bool(pc.any(pc.is_inf(column)).as_py())
        return bool(pa.types.is_string_view(column.type) or column.nbytes > LONGEST_RECORD)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Slices of the table."""
        table = self.table.select(names)
        for start in range(0, len(table), BATCH_ROWS):
            yield from table.slice(start, BATCH_ROWS).combine_chunks().to_batches()


@dataclass(frozen=True, slots=True)
class RecordedFiles:
    """Parquet files, in the order of their names, read as a stream: memory does not grow with them."""

    dataset: ds.FileSystemDataset
    schemas: dict[str, pa.Schema]

    @classmethod
    def at(cls, path: Path | str) -> "RecordedFiles":
        """Every Parquet file of a folder, or one file.

        Raises:
            Misdeclared: There is none, or one is no Parquet or does not go with the others.
        """
        try:
            dataset = ds.dataset(path, format="parquet", schema=pa.schema([]), exclude_invalid_files=False)
        except FileNotFoundError as error:
            raise Misdeclared(f"There are no recorded events at {path}: {error}") from error
        if not dataset.files:
            raise Misdeclared(
                f"There are no recorded events at {path}: the folder has no files; give one of Parquet files"
            )
        schemas = {}
        for fragment in dataset.get_fragments():
            with _named(fragment.path):
                schemas[fragment.path] = fragment.physical_schema
        try:
            schema = pa.unify_schemas(list(schemas.values()), promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise Misdeclared(
                f"The files of {path} do not go together: {error}; cast the column in one of them"
            ) from error
        schema = pa.schema(
            [field.with_nullable(True) for field in schema]
        )  # else Arrow wants it in every file
        return cls(dataset.replace_schema(schema), schemas)

    @property
    def schema(self) -> pa.Schema:
        """Of all files together."""
        return self.dataset.schema

    @property
    def rows(self) -> int:
        """As the files' footers say."""
        return sum(fragment.metadata.num_rows for fragment in self.dataset.get_fragments())

    def has_nulls(self, name: str) -> bool:
        """Unless the footers say that there are none."""
        return any(_may_have_nulls(fragment, name) for fragment in self.dataset.get_fragments())

    def has_extremes(self, name: str) -> bool:
        """Unless the footers say that there are none."""
        return any(_may_have_extremes(fragment, name) for fragment in self.dataset.get_fragments())

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches of one file after another."""
        options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        for fragment in self.dataset.get_fragments():
            with _named(fragment.path):
                as_held, schema = _with_dictionaries(fragment, self.schema, names)
                yield from as_held.to_batches(
                    schema=schema, columns=list(names), batch_size=BATCH_ROWS, batch_readahead=2,
                    use_threads=False, fragment_scan_options=options,
                )  # fmt: skip


def read_table(recorded: Recorded) -> pa.Table:
    """All of it, in memory."""
    names = recorded.schema.names
    return pa.Table.from_batches(recorded.batches(names), schema=recorded.schema)


def in_log_order(recorded: Recorded) -> Recorded:
    """The events with the offsets of each partition ascending: as they are, or else sorted in memory."""
    if not {"partition", "offset"} <= set(recorded.schema.names):
        return recorded
    last = np.full(0, np.iinfo(np.int64).min)
    for batch in recorded.batches(["partition", "offset"]):
        partitions = _partitions(batch)
        last = with_partitions(last, partitions, np.iinfo(np.int64).min)
        if not ascend(partitions, _offsets(batch), last):
            return RecordedTable(
                read_table(recorded).sort_by([("partition", "ascending"), ("offset", "ascending")])
            )
    return recorded


class Placer:
    """Gives events their partition and offset, batch after batch.

    Where no partition is named it is the one that publishing puts the event on: by murmur2 of its key. Where no
    offset is named events are counted from 0 in each partition.

    Args:
        schema: Of the recorded events.
        key: The field that is the partition key.
        partitions: How many the topic has.
    """

    def __init__(self, schema: pa.Schema, key: Field, partitions: int) -> None:
        names = set(schema.names)
        self._key, self._has_keys = key, is_raw(schema) or names == UNPLACED
        self._has_partition, self._has_offset = "partition" in names, "offset" in names
        self._count = partitions
        self._ends = np.zeros(partitions, np.int64)

    def place(self, batch: pa.RecordBatch) -> tuple[Int32s, Int64s]:
        """``(n,) int32`` partitions and ``(n,) int64`` offsets."""
        partitions = _partitions(batch) if self._has_partition else self._places(batch)
        if self._has_offset:
            return partitions, _offsets(batch)
        self._ends = with_partitions(self._ends, partitions, 0)
        offsets = np.empty(len(batch), np.int64)
        number_events(partitions, self._ends, offsets)
        return partitions, offsets

    def _places(self, batch: pa.RecordBatch) -> Int32s:
        """By the key; 0 where there is none, or where it is no key: decoding will say so."""
        places = np.zeros(len(batch), np.int32)
        if self._count == 1:
            return places
        keys = batch["key"] if self._has_keys else column_of(batch, self._key)
        if keys is None:
            return places
        if pa.types.is_dictionary(keys.type) and not keys.dictionary.null_count:
            of_each = np.append(self._places_of(keys.dictionary), np.int32(0))
            return of_each[keys.indices.fill_null(len(of_each) - 1).to_numpy()]
        return self._places_of(keys)

    def _places_of(self, keys: pa.Array) -> Int32s:
        places = np.zeros(len(keys), np.int32)
        try:
            if not pa.types.is_binary(keys.type):
                keys = (keys if pa.types.is_large_binary(keys.type) else keys.cast(pa.string())).cast(
                    pa.binary()
                )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # no key: decoding names the field and the row
            return places
        _, ends, data = keys.buffers()
        bounds = np.frombuffer(ends, np.int32)[keys.offset : keys.offset + len(keys) + 1]
        place_keys(data.address if data else 0, bounds, self._count, places)
        return np.where(keys.is_valid(), places, np.int32(0)) if keys.null_count else places


def with_partitions(of_each: Int64s, partitions: Int32s, fill: int) -> Int64s:
    """An array with an item for each partition up to the highest of these."""
    more = int(partitions.max(initial=-1)) + 1 - len(of_each)
    return np.concatenate([of_each, np.full(more, fill)]) if more > 0 else of_each


def _partitions(batch: pa.RecordBatch) -> Int32s:
    column = batch["partition"]
    if column.null_count or not pa.types.is_integer(column.type):
        raise Misdeclared(
            f"Column 'partition' is {column.type} with {column.null_count} nulls; it holds whole numbers, none missing"
        )
    if len(column) and not 0 <= pc.min(column).as_py() <= pc.max(column).as_py() < MOST_PARTITIONS:
        raise Misdeclared(
            f"Column 'partition' holds numbers outside 0 to {MOST_PARTITIONS - 1}; rename it if it is something else"
        )
    return column.cast(pa.int32()).to_numpy()


def _offsets(batch: pa.RecordBatch) -> Int64s:
    column = batch["offset"]
    if column.null_count or not pa.types.is_integer(column.type):
        raise Misdeclared(
            f"Column 'offset' is {column.type} with {column.null_count} nulls; it holds whole numbers, none missing"
        )
    return column.cast(pa.int64()).to_numpy()


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Puts the file before what Arrow says of it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise Misdeclared(
            f"{path} can't be read as Parquet: {error}; write it anew, leave it out, or give JSON lines (.jsonl, .ndjson, .json)"
        ) from error


def _with_dictionaries(
    fragment: ds.ParquetFileFragment, schema: pa.Schema, names: Sequence[str]
) -> tuple[ds.ParquetFileFragment, pa.Schema]:
    """A file and its schema, with texts that it holds as places in a dictionary left so: several times as fast to read."""
    kept = {name for name in names if _holds_dictionary(fragment, schema, name)}
    if not kept:
        return fragment, schema
    for name in kept:
        column = schema.get_field_index(name)
        schema = schema.set(column, pa.field(name, pa.dictionary(pa.int32(), schema.field(name).type)))
    as_held = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=kept))
    return as_held.make_fragment(fragment.path, fragment.filesystem), schema


def _holds_dictionary(fragment: ds.ParquetFileFragment, schema: pa.Schema, name: str) -> bool:
    """Whether a text column is known to stand in the file so: written one by one, each text takes four bytes and more."""
    if not pa.types.is_string(schema.field(name).type):
        return False
    return all(
        chunk is not None
        and chunk.has_dictionary_page
        and chunk.total_uncompressed_size < 4 * chunk.num_values
        for chunk in _chunks(fragment, name)
    )


def _may_have_nulls(fragment: ds.ParquetFileFragment, name: str) -> bool:
    for chunk in _chunks(fragment, name):
        statistics = None if chunk is None else chunk.statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def _may_have_extremes(fragment: ds.ParquetFileFragment, name: str) -> bool:
    for chunk in _chunks(fragment, name):
        if chunk is None:
            return True
        if chunk.physical_type in {"FLOAT", "DOUBLE"}:
            statistics = chunk.statistics
            if statistics is None or not statistics.has_min_max:
                return True
            if not np.isfinite([statistics.min, statistics.max]).all():
                return True
        elif chunk.total_uncompressed_size > LONGEST_RECORD:  # of every encoding, no text is longer
            return True
    return False


def _chunks(fragment: ds.ParquetFileFragment, name: str) -> Iterator[pq.ColumnChunkMetaData | None]:
    """What the footer says of a column in each group of rows; ``None`` where that is not known."""
    metadata, place = fragment.metadata, fragment.physical_schema.get_field_index(name)
    if place < 0 or metadata.num_columns != len(fragment.physical_schema):  # a nested column takes several
        yield None
        return
    for group in range(metadata.num_row_groups):
        yield metadata.row_group(group).column(place)

"""Replay of a pipeline: recorded events to training rows, with labels where the pipeline has them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import features.replay
from features.ahead import ahead
from features.columns import Columns, Int64s
from features.engine import NO_TIME, Engine
from features.recorded import Recorded, RecordedTable, in_log_order
from features.replay import DecodedBatch, Decoder, Replay, ReplayedSlice
from features.shards import folder
from models.labels import LabelJoin, Labels, label_events, label_keys
from pipelines.pipeline import Pipeline

Progress = Callable[[int], object]

_LABEL = pa.field("label", pa.float64())

_LAYOUT: dict[str, Any] = {
    "compression": "none",
    "use_dictionary": ["partition"],
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "event_time": "DELTA_BINARY_PACKED"},
    "write_statistics": ["partition", "offset", "event_time"],
}
"""Of files of rows. Measured: by default Arrow takes longer to write a row than the engine to compute it; a compressed
file is a third smaller, and takes twice as long to write."""

_GROUP_BATCHES = 8


def replay(
    pipeline: Pipeline,
    table: pa.Table,
    progress: Progress | None = None,
    malformed: Counter[str] | None = None,
    *,
    processes: int = 1,
) -> pa.Table:
    """Rows of every scored event: where it came from, key, features, digest, and its label.

    Args:
        pipeline: The declaration.
        table: Recorded events, raw or typed; see `features.recorded`. Where they name no partition, each is on the
            one that publishing would put it on, of as many as the pipeline's source declares: the watermark, and so
            what is late, is the partition's.
        progress: Told after each batch how many events were folded since the last call.
        malformed: Records that could not be used are counted here, by reason.
        processes: The keys are split over so many; the bits do not depend on it.

    Returns:
        The columns of `row_schema`, in order of partition and offset. Where a row without a label is negative, that is
        said only of rows whose horizon has closed by the newest event time; others have no label.
    """
    rows = replayed(pipeline, RecordedTable(table), progress, malformed, processes=processes)
    return _in_order(pa.Table.from_batches(rows, schema=row_schema(pipeline)))


def replayed(
    pipeline: Pipeline,
    recorded: Recorded,
    progress: Progress | None = None,
    malformed: Counter[str] | None = None,
    *,
    processes: int = 1,
) -> Iterator[pa.RecordBatch]:
    """The same batch by batch: memory holds the state of the keys, the labels (24 bytes each) and a few batches.

    Rows come in the order of the events; events whose offsets do not ascend are put in order of partition and offset first.
    """
    recorded, labels, schema = in_log_order(recorded), pipeline.labels, pipeline.source.schema
    join = None if labels is None else _labels(labels, pipeline, recorded)
    needed = pipeline.engine.fields | (set() if labels is None else labels.fields())
    decoder = Decoder(schema, recorded, needed, pipeline.source.partitions)
    engine = pipeline.engine
    if decoder.schema is not schema:
        engine = Engine(decoder.schema, pipeline.features, pipeline.score_when)
    rows = row_schema(pipeline)
    with folder(engine, processes) as where:
        for piece in Replay(engine, where).fold(ahead(decoder.batches())):
            arrays = _arrays(pipeline, piece)
            if join is not None:
                join.add_rows(piece)
                arrays.append(join.labels())
            _tell(piece.batch, progress, malformed)
            yield pa.record_batch(arrays, schema=rows)


def rows_of(
    pipeline: Pipeline,
    batches: Iterable[DecodedBatch],
    progress: Progress | None = None,
    malformed: Counter[str] | None = None,
    *,
    processes: int = 1,
) -> pa.Table:
    """The same, in memory, of batches that can be read once."""
    labels = pipeline.labels
    join = None if labels is None else _Labelling(labels)
    schema, tables = row_schema(pipeline), []
    unlabelled = schema if labels is None else schema.remove(len(schema) - 1)
    with folder(pipeline.engine, processes) as where:
        for piece in Replay(pipeline.engine, where).fold(batches):
            tables.append(pa.record_batch(_arrays(pipeline, piece), schema=unlabelled))
            if join is not None:
                join.add_labels(piece.batch.columns)
                join.add_rows(piece)
            _tell(piece.batch, progress, malformed)
    rows = pa.Table.from_batches(tables, schema=unlabelled)
    return _in_order(rows if join is None else rows.append_column(_LABEL, join.labels()))


def write_rows(rows: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
    """Write rows as they come to a Parquet file that is there once it is whole; returns how many they are."""
    partial, count = path.with_name(f".{path.name}.partial"), 0
    try:
        with pq.ParquetWriter(partial, schema, **_LAYOUT) as writer:
            waiting = ahead(rows)
            while group := list(islice(waiting, _GROUP_BATCHES)):
                table = pa.Table.from_batches(group, schema=schema)
                writer.write_table(table, row_group_size=max(1, len(table)))
                count += len(table)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def row_schema(pipeline: Pipeline) -> pa.Schema:
    """As `features.replay.row_schema` has it, and with labels ``label`` (null where missing)."""
    labels = pipeline.labels
    if labels is None:
        return features.replay.row_schema(pipeline.engine)
    return features.replay.row_schema(pipeline.engine, labels.key).append(_LABEL)


def _in_order(rows: pa.Table) -> pa.Table:
    """By partition; those of one are in order of their offsets."""
    partitions = rows["partition"].to_numpy()
    if (np.diff(partitions) >= 0).all():
        return rows
    return rows.take(pa.array(np.argsort(partitions, kind="stable")))


class _Labelling:
    """Labels joined to rows, all of them known before the first row is labelled."""

    def __init__(self, labels: Labels) -> None:
        self._declared, self._join = labels, LabelJoin(labels)
        self._newest = NO_TIME
        self._times: list[Int64s] = []

    def add_labels(self, columns: Columns) -> None:
        """Labels among some events."""
        self._join.add_labels(*label_events(columns, self._declared))
        self._newest = int(columns.times.max(initial=self._newest))

    def add_rows(self, piece: ReplayedSlice) -> None:
        """Rows that `labels` is asked for next."""
        times = piece.batch.columns.times[piece.events]
        keys = label_keys(piece.batch.columns, self._declared)[piece.events]
        self._join.add_rows(keys, times, np.arange(len(times)))
        self._times.append(times)

    def labels(self) -> pa.Array:
        """Of the rows added since the last call, in their order."""
        labels = self._join.close().labels
        is_missing = np.isnan(labels)
        if self._declared.without == "negative":
            horizon = self._declared.horizon // timedelta(milliseconds=1)
            is_missing |= np.concatenate([np.empty(0, np.int64), *self._times]) + horizon >= self._newest
        self._times.clear()
        return pa.array(labels, mask=is_missing)


def _labels(labels: Labels, pipeline: Pipeline, recorded: Recorded) -> _Labelling:
    """Every label among the events, from a first reading of what they are made of."""
    join = _Labelling(labels)
    decoder = Decoder(pipeline.source.schema, recorded, labels.fields(), pipeline.source.partitions)
    for columns in ahead(decoder.columns()):
        join.add_labels(columns)
    return join


def _arrays(pipeline: Pipeline, piece: ReplayedSlice) -> list[pa.Array]:
    return piece.arrays(None if pipeline.labels is None else pipeline.labels.key)


def _tell(batch: DecodedBatch, progress: Progress | None, malformed: Counter[str] | None) -> None:
    if malformed is not None:
        malformed.update(each.reason for each in batch.malformed.values())
    if progress is not None:
        progress(len(batch))

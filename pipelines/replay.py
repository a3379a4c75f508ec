"""Replay of a pipeline: recorded events to training rows, with labels where the pipeline has them."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np
import pyarrow as pa

from features.archive import ARCHIVE, as_recorded
from features.replay import Replay, ReplayedSlice
from models.labels import LabelJoin, label_events, label_keys
from pipelines.pipeline import Pipeline


def replay(
    pipeline: Pipeline,
    table: pa.Table,
    progress: Callable[[int], object] | None = None,
    malformed: Counter[str] | None = None,
) -> pa.Table:
    """Rows of every scored event: where it came from, key, features, digest, and its label.

    Args:
        pipeline: The declaration.
        table: Recorded events, raw or typed; see `features.archive`. Where they name no partition, each is on the
            one that publishing would put it on, of as many as the pipeline's source declares: the watermark, and so
            what is late, is the partition's.
        progress: Told after each slice how many events were folded since the last call.
        malformed: Records that could not be used are counted here, by reason.

    Returns:
        A table in order of partition and offset, as `features.replay.ReplayedSlice.table` names it;
        with labels, also the label key and ``label`` (``float64``, null where missing). Where a row without a label
        is negative, that is said only of rows whose horizon has closed by the newest event time; others have none.
    """
    schema = pipeline.source.schema
    recorded = as_recorded(table, schema[schema.key], pipeline.source.partitions)
    return rows_of(pipeline, Replay(pipeline.engine).table(recorded), progress, malformed)


def rows_of(
    pipeline: Pipeline,
    slices: Iterable[ReplayedSlice],
    progress: Callable[[int], object] | None = None,
    malformed: Counter[str] | None = None,
) -> pa.Table:
    """The same, of slices that are replayed from elsewhere."""
    labels = pipeline.labels
    join = None if labels is None else LabelJoin(labels)
    nothing = Replay(pipeline.engine).table(ARCHIVE.empty_table())  # gives the columns even if no slice comes
    tables, count, newest = [], 0, np.iinfo(np.int64).min
    for piece in chain(nothing, slices):
        table = piece.table(pipeline.engine, None if labels is None else labels.key)
        if labels is not None and join is not None:
            join.add_labels(*label_events(piece.columns, labels))
            newest = int(piece.columns.times.max(initial=newest))
            scored = piece.rows.events
            join.add_rows(
                label_keys(piece.columns, labels)[scored],
                piece.columns.times[scored],
                count + np.arange(len(scored)),
            )
        tables.append(table)
        if malformed is not None:
            malformed.update(each.reason for each in piece.malformed.values())
        count += len(table)
        if progress is not None:
            progress(len(piece.columns) + len(piece.malformed))
    rows = pa.concat_tables(tables)
    if labels is None or join is None:
        return rows
    closed = join.close(newest if labels.without == "negative" else None)
    values = np.full(count, np.nan)
    values[closed.rows] = closed.labels
    return rows.append_column("label", pa.array(values, mask=np.isnan(values)))

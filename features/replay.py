"""Replay: recorded events to rows, by the engine that the worker runs.

::

    replay = Replay(engine)                            # one state a partition
    for piece in replay.table(recorded):               # raw or typed, see features.archive
        piece.columns, piece.rows                      # events of a slice, rows of the scored ones
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from features.archive import is_raw, partitions, records_of
from features.codecs.arrow import ArrowCodec
from features.columns import Columns, Int64s
from features.decode import DecodedRecords, RecordDecoder, columns_of
from features.engine import Engine, PartitionState
from features.errors import Malformed
from features.kernels.texts import copy_texts
from features.records import RawRecords
from features.rows import Rows

SLICE_ROWS = 4096
"""Events that are folded at a time; rows do not depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSlice:
    """A slice of a partition, folded.

    Args:
        partition: Its number.
        columns: The well-formed events.
        offsets: ``(n,) int64`` their offsets.
        rows: Rows of the scored ones among them.
        malformed: By offset, why a record was left out.
    """

    partition: int
    columns: Columns
    offsets: Int64s
    rows: Rows
    malformed: dict[int, Malformed]

    def table(self, engine: Engine, label_key: str | None = None) -> pa.Table:
        """The rows as a table.

        Its columns: ``partition``, ``offset``, ``event_time`` (ms), ``key`` (the partition key), ``label_key``
        (if named), the features (``float32``, or ``int64`` category ids), ``features_digest`` (``uint64``).
        """
        scored, rows = self.columns.take(self.rows.events), self.rows
        data: dict[str, pa.Array] = {
            "partition": pa.array(np.full(len(rows), self.partition, np.int32)),
            "offset": pa.array(self.offsets[rows.events]),
            "event_time": pa.array(scored.times),
        }
        data["key"] = field_array(scored, engine.schema.key)
        if label_key is not None:
            data["label_key"] = field_array(scored, label_key)
        data.update({name: pa.array(rows.block[:, i]) for i, name in enumerate(engine.float_columns)})
        data.update({name: pa.array(rows.ids[:, i]) for i, name in enumerate(engine.category_columns)})
        data["features_digest"] = pa.array(rows.digests())
        return pa.table(data)


class Replay:
    """Folds recorded partitions slice by slice; each partition has its own state."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._decoder = RecordDecoder(engine.schema)
        self._arrow = ArrowCodec(engine.schema)
        self._states: dict[int, PartitionState] = {}

    def state(self, partition: int) -> PartitionState:
        """The fold of what was fed of a partition."""
        if partition not in self._states:
            self._states[partition] = self.engine.new_partition()
        return self._states[partition]

    def records(self, partition: int, records: RawRecords) -> ReplayedSlice:
        """Fold raw records, the next of their partition."""
        return self._fold(partition, self._decoder.decode(records), records.offsets)

    def table(self, table: pa.Table) -> Iterator[ReplayedSlice]:
        """Fold recorded events, raw or typed, in order of partition and offset."""
        raw = is_raw(table.schema)
        if not raw:
            self._arrow.check(table.schema)
        for partition, part in partitions(table):
            for start in range(0, max(1, len(part)), SLICE_ROWS):
                piece = part.slice(start, SLICE_ROWS)
                if raw:
                    yield self.records(partition, records_of(piece))
                else:
                    yield self._fold(partition, self._typed(piece), _offsets(piece, start))

    def _typed(self, table: pa.Table) -> DecodedRecords:
        decoded = self._arrow.decode(table)
        columns, malformed = columns_of(self.engine.schema, decoded)
        return DecodedRecords.of(columns, malformed)

    def _fold(self, partition: int, decoded: DecodedRecords, offsets: Int64s) -> ReplayedSlice:
        return ReplayedSlice(
            partition=partition,
            columns=decoded.columns,
            offsets=offsets[decoded.columns.positions],
            rows=self.state(partition).process(decoded.columns),
            malformed={int(offsets[row]): reason for row, reason in sorted(decoded.malformed.items())},
        )


def _offsets(table: pa.Table, start: int) -> Int64s:
    if "offset" in table.schema.names:
        return table["offset"].to_numpy()
    return np.arange(start, start + len(table))


def field_array(columns: Columns, name: str) -> pa.Array:
    """One field of the events as an Arrow array."""
    kind, valid = columns.schema[name].type, columns.is_valid(name).view(np.bool_)
    if kind is str:
        refs = np.where(valid, columns.word(name), 0)
        offsets = np.zeros(len(columns) + 1, np.int32)
        np.cumsum(refs & 0xFFFFFF, out=offsets[1:])
        data = np.empty(int(offsets[-1]) + 8, np.uint8)
        copy_texts(columns.base, refs, data.ctypes.data)
        texts = pa.StringArray.from_buffers(len(columns), pa.py_buffer(offsets), pa.py_buffer(data))
        return pa.compute.if_else(pa.array(valid), texts, None)
    values = columns.number(name) if kind is float else columns.word(name)
    array = pa.array(values, mask=~valid)
    return array.cast(pa.bool_()) if kind is bool else array

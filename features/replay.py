"""Replay: recorded events to rows, by the engine that the worker runs.

::

    replay = Replay(engine)                            # one state a partition
    for piece in replay.fold(decoder.batches()):       # decoded from what features.recorded reads
        piece.floats, piece.digests                    # rows of the scored events

What can be proven not to matter is not read: a typed column that nothing needs and that makes no row malformed.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.archive import is_raw, records_of
from features.codecs.arrow import ArrowCodec, path_in
from features.columns import Columns, Int64s
from features.decode import DecodedRecords, RecordDecoder, columns_of
from features.engine import NO_TIME, Engine
from features.errors import Malformed, declared_as
from features.folder import Folder, Lane, LaneRows, LocalFolder
from features.kernels.lanes import choose_shards, follow_watermarks, place_rows, sort_by_lane
from features.kernels.texts import copy_texts
from features.recorded import UNPLACED, Int32s, Placer, Recorded, with_partitions
from features.records import RawRecords
from features.rows import Rows
from features.schema import Field, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatch:
    """Decoded events of any partitions; those of a partition in log order.

    Args:
        columns: The ``n`` well-formed events.
        partitions: ``(n,) int32``.
        offsets: ``(n,) int64``.
        malformed: By partition and offset, why a record was left out.
    """

    columns: Columns
    partitions: Int32s
    offsets: Int64s
    malformed: dict[tuple[int, int], Malformed]

    @classmethod
    def of(cls, decoded: DecodedRecords, partitions: Int32s, offsets: Int64s) -> "DecodedBatch":
        """What was decoded, and where each record stands."""
        malformed = {
            (int(partitions[row]), int(offsets[row])): reason
            for row, reason in sorted(decoded.malformed.items())
        }
        if malformed:
            kept = decoded.columns.positions
            partitions, offsets = partitions[kept], offsets[kept]
        return cls(columns=decoded.columns, partitions=partitions, offsets=offsets, malformed=malformed)

    def __len__(self) -> int:
        return len(self.columns) + len(self.malformed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSlice:
    """A batch, folded.

    Args:
        batch: The well-formed events and what is wrong with the others.
        events: ``(r,) int64`` which of them are scored, ascending.
        floats: ``(float columns, r) float32``.
        categories: ``(category columns, r) int64``.
        digests: ``(r,) uint64``.
    """

    batch: DecodedBatch
    events: Int64s
    floats: NDArray[np.float32]
    categories: Int64s
    digests: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.events)

    def row(self, number: int) -> Rows:
        """One row, copied, of the first of some events."""
        chosen = slice(number, number + 1)
        return Rows(
            block=np.ascontiguousarray(self.floats[:, chosen].T),
            ids=np.ascontiguousarray(self.categories[:, chosen].T),
            events=np.zeros(1, np.int64),
        )

    def arrays(self, label_key: str | None = None) -> list[pa.Array]:
        """The rows' columns, as `row_schema` names them."""
        columns, chosen = self.batch.columns, None if len(self) == len(self.batch.columns) else self.events
        named = [columns.schema.key] if label_key is None else [columns.schema.key, label_key]
        return [
            pa.array(_chosen(self.batch.partitions, chosen)),
            pa.array(_chosen(self.batch.offsets, chosen)),
            pa.array(_chosen(columns.times, chosen)),
            *(field_array(columns, name, chosen) for name in named),
            *map(pa.array, self.floats),
            *map(pa.array, self.categories),
            pa.array(self.digests),
        ]


def row_schema(engine: Engine, label_key: str | None = None) -> pa.Schema:
    """Of rows as a table.

    Its columns: ``partition``, ``offset``, ``event_time`` (ms), ``key`` (the partition key), ``label_key``
    (if named), the features (``float32``, or ``int64`` category ids), ``features_digest`` (``uint64``).
    """
    key = engine.schema[engine.schema.key]
    fields = [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("event_time", pa.int64(), nullable=False),
        pa.field("key", pa.string() if key.type is str else pa.int64()),
        *([] if label_key is None else [pa.field("label_key", pa.string())]),
        *(pa.field(name, pa.float32(), nullable=False) for name in engine.float_columns),
        *(pa.field(name, pa.int64(), nullable=False) for name in engine.category_columns),
        pa.field("features_digest", pa.uint64(), nullable=False),
    ]
    return pa.schema(fields)


class Decoder:
    """Decodes recorded events of one schema as far as some of its fields are needed.

    Args:
        schema: The pipeline's.
        recorded: The events.
        needed: Fields that are read, key and event time besides.
        partitions: How many the topic has.

    Raises:
        Misdeclared: The events have not the fields, or not in usable types; names the part.
    """

    def __init__(self, schema: Schema, recorded: Recorded, needed: Collection[str], partitions: int) -> None:
        self._recorded, names = recorded, set(recorded.schema.names)
        self._is_raw = is_raw(recorded.schema) or names == UNPLACED
        self._placer = Placer(recorded.schema, schema[schema.key], partitions)
        if self._is_raw:
            self.schema, self._names = (
                schema,
                sorted(names & {"partition", "offset", "timestamp", "key", "value"}),
            )
            self._records = RecordDecoder(schema)
            return
        for part, part_schema in recorded.schemas.items():
            with declared_as(part):
                ArrowCodec(schema).check(part_schema)
        read = {schema.key, schema.time.field, *needed}
        read |= {field.name for field in schema.fields if not _is_harmless(field, recorded)}
        self.schema = schema.only(read)
        self._arrow = ArrowCodec(self.schema)
        paths = [path_in(recorded.schema, field) for field in self.schema.fields]
        columns = {"partition", "offset", *(path[0] for path in paths if path is not None)}
        self._names = [name for name in recorded.schema.names if name in columns]

    def batches(self) -> Iterator[DecodedBatch]:
        """Every event."""
        for batch in self._recorded.batches(self._names):
            partitions, offsets = self._placer.place(batch)
            yield DecodedBatch.of(self._decoded(batch, offsets), partitions, offsets)

    def columns(self) -> Iterator[Columns]:
        """Every well-formed event, wherever it stands."""
        for batch in self._recorded.batches(self._names):
            yield self._decoded(batch, np.arange(len(batch))).columns

    def _decoded(self, batch: pa.RecordBatch, offsets: Int64s) -> DecodedRecords:
        if self._is_raw:
            return self._records.decode(records_of(batch, offsets))
        columns, malformed = columns_of(self.schema, self._arrow.decode(batch))
        return DecodedRecords.of(columns, malformed)


def _is_harmless(field: Field, recorded: Recorded) -> bool:
    """Whether it is known that no value of a field makes a typed row malformed."""
    if (path := path_in(recorded.schema, field)) is None:
        return True
    name = str(path[0])
    type_ = recorded.schema.field(name).type
    is_number = pa.types.is_float32(type_) or pa.types.is_float64(type_)
    if len(path) > 1 or (not field.optional and (is_number or recorded.has_nulls(name))):  # NaN is missing
        return False
    if field.type is str or is_number:
        return not recorded.has_extremes(name)
    return bool(pa.types.is_boolean(type_) or (pa.types.is_integer(type_) and not pa.types.is_uint64(type_)))


class Replay:
    """Folds recorded partitions batch by batch; each partition has its own state.

    Args:
        engine: What to compute.
        folder: Where; by default here.
    """

    def __init__(self, engine: Engine, folder: Folder | None = None) -> None:
        self.engine = engine
        self._folder = LocalFolder(engine) if folder is None else folder
        self._watermarks = np.empty(0, np.int64)

    def fold(self, batches: Iterable[DecodedBatch]) -> Iterator[ReplayedSlice]:
        """Fold batches, each the next of its partitions; while shards fold one, the next is made."""
        ahead = deque[tuple[DecodedBatch, Sequence[Lane], Callable[[], Sequence[LaneRows]]]]()
        for batch in batches:
            lanes = self._lanes(batch)
            ahead.append((batch, lanes, self._folder.submit(lanes)))
            if len(ahead) > (self._folder.shards > 1):
                yield self._joined(*ahead.popleft())
        while ahead:
            yield self._joined(*ahead.popleft())

    def _lanes(self, batch: DecodedBatch) -> list[Lane]:
        columns, partitions, shards = batch.columns, batch.partitions, self._folder.shards
        if not len(columns):
            return []
        self._watermarks = with_partitions(self._watermarks, partitions, NO_TIME)
        heights, lanes = None, partitions
        if shards > 1:
            heights = np.empty(len(columns), np.int64)
            follow_watermarks(partitions, columns.times, self._watermarks, heights)
            lanes = self._shards(columns) * np.int32(len(self._watermarks)) + partitions
        if lanes.min() == lanes.max():
            return [self._lane(int(lanes[0]), batch, None, heights)]
        starts, order = (
            np.empty(shards * len(self._watermarks) + 1, np.int64),
            np.empty(len(columns), np.int64),
        )
        sort_by_lane(lanes, starts, order)
        return [
            self._lane(int(lane), batch, order[starts[lane] : starts[lane + 1]], heights)
            for lane in np.flatnonzero(np.diff(starts))
        ]

    def _shards(self, columns: Columns) -> Int32s:
        """``(n,) int32`` the shard of each event."""
        key, chosen = self.engine.schema.key, np.empty(len(columns), np.int32)
        is_text = columns.schema[key].type is str
        choose_shards(
            columns.base, columns.word(key), columns.is_valid(key), is_text, self._folder.shards, chosen
        )
        return chosen

    def _lane(self, lane: int, batch: DecodedBatch, places: Int64s | None, heights: Int64s | None) -> Lane:
        shard, partition = divmod(lane, len(self._watermarks))
        return Lane(
            shard=shard,
            partition=partition,
            places=places,
            columns=batch.columns if places is None else batch.columns.take(places),
            heights=heights if places is None or heights is None else heights[places],
        )

    def _joined(
        self, batch: DecodedBatch, lanes: Sequence[Lane], rows: Callable[[], Sequence[LaneRows]]
    ) -> ReplayedSlice:
        """The lanes' rows, in the order of the batch."""
        folded = rows()
        events = [
            each.rows.events if lane.places is None else lane.places[each.rows.events]
            for lane, each in zip(lanes, folded, strict=True)
        ]
        scored = np.zeros(len(batch.columns), np.bool_)
        for each in events:
            scored[each] = True
        where = np.cumsum(scored) - 1
        count = int(where[-1]) + 1 if len(where) else 0
        joined = ReplayedSlice(
            batch=batch,
            events=np.flatnonzero(scored),
            floats=np.empty((len(self.engine.float_columns), count), np.float32),
            categories=np.empty((len(self.engine.category_columns), count), np.int64),
            digests=np.empty(count, np.uint64),
        )
        for places, its in zip(events, folded, strict=True):
            place_rows(
                its.rows.block, its.rows.ids, its.digests, where[places], joined.floats, joined.categories,
                joined.digests,
            )  # fmt: skip
        return joined


def decoded_records(decoder: RecordDecoder, partition: int, records: RawRecords) -> DecodedBatch:
    """Raw records, the next of their partition."""
    partitions = np.full(len(records), partition, np.int32)
    return DecodedBatch.of(decoder.decode(records), partitions, records.offsets)


def _chosen(values: NDArray[Any], chosen: Int64s | None) -> NDArray[Any]:
    return values if chosen is None else values[chosen]


def field_array(columns: Columns, name: str, chosen: Int64s | None = None) -> pa.Array:
    """One field of the events, or of the chosen ones, as an Arrow array."""
    kind, valid = columns.schema[name].type, _chosen(columns.is_valid(name), chosen).view(np.bool_)
    words, mask = _chosen(columns.word(name), chosen), None if valid.all() else ~valid
    if kind is str:
        refs = words if mask is None else np.where(valid, words, 0)
        offsets = np.zeros(len(refs) + 1, np.int32)
        np.cumsum(refs & 0xFFFFFF, out=offsets[1:])
        data = np.empty(int(offsets[-1]) + 8, np.uint8)
        copy_texts(columns.base, refs, data.ctypes.data)
        is_there = None if mask is None else pa.array(valid).buffers()[1]
        return pa.StringArray.from_buffers(len(refs), pa.py_buffer(offsets), pa.py_buffer(data), is_there)
    array = pa.array(words.view(np.float64) if kind is float else words, mask=mask)
    return array.cast(pa.bool_()) if kind is bool else array

"""Mismatches explained: which columns of a row differ, by which values, and the events that lie behind them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns, Int64s
from features.engine import NO_TIME, Engine
from features.expressions import col
from features.featureset import FeatureSet
from features.kinds.kind import KeyedKind, Kind, RowKind, WindowedKind
from features.logged import Features, logged_bits
from features.program import evaluate
from features.replay import ReplayedSlice, field_array
from features.rows import Rows

EVENTS = 20
"""How many of the events behind a row are shown, the last."""

Slices = Callable[[], Iterable[ReplayedSlice]]
"""Replays the recorded stream from its beginning."""

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What a row has in a column; equal bits are equal values, NaN too.

    Args:
        number: A float, or a category id.
        bits: Of it, in hexadecimal.
    """

    number: float | int = field(compare=False)
    bits: str

    @classmethod
    def of_float(cls, bits: int) -> "Value":
        """A ``float32`` by its bits."""
        return cls(number=float(str(np.uint32(bits).view(np.float32))), bits=f"0x{bits:08x}")

    @classmethod
    def of_id(cls, number: int) -> "Value":
        """A category id."""
        return cls(number=number, bits=f"0x{number % (1 << 64):016x}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A column whose bits are not the same on both sides; ``None`` is a side that has no such column."""

    column: str
    online: Value | None
    recomputed: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBehind:
    """An event of the entity, up to the row's own.

    Args:
        offset: Of its record.
        event_time: ms since the epoch.
        is_late: Whether it came too late to be folded.
        fields: What the differing features read of it.
        counts_for: The differing columns that it takes part in as of the row.
    """

    offset: int
    event_time: int
    is_late: bool
    fields: Mapping[str, Any]
    counts_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The events behind the differing columns of one feature set.

    Args:
        columns: The columns that they stand for.
        entity: The key's fields and values; nothing for features of the event alone.
        now: What time the row was read as of, ms.
        total: How many events the entity has had since it began or last expired, late ones among them.
        counting: By column, how many of them take part.
        events: The last of them.
    """

    columns: tuple[str, ...]
    entity: Mapping[str, Any]
    now: int
    total: int
    counting: Mapping[str, int]
    events: tuple[EventBehind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """What was published of a row: its digest, and its values if they were logged."""

    digest: int
    features: Features | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One row that differs.

    Args:
        partition: Of its record.
        offset: Of its record.
        key: The partition key.
        event_time: ms since the epoch.
        online_digest: As it was published, in hexadecimal.
        recomputed_digest: What it should be.
        is_logged: Whether the online values are known; if not, every column is among the differences.
        differences: The columns that differ.
        evidence: The events behind them.
    """

    partition: int
    offset: int
    key: Any
    event_time: int
    online_digest: str
    recomputed_digest: str
    is_logged: bool
    differences: tuple[Difference, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedRow:
    """A recomputed row and its event, each alone."""

    partition: int
    offset: int
    event: Columns
    row: Rows

    @property
    def digest(self) -> int:
        """Of its bits."""
        return int(self.row.digests()[0])


def recomputed_rows(slices: Slices, wanted: Iterable[tuple[int, int]]) -> Iterator[RecomputedRow]:
    """The rows at these positions (partition, offset), in the order of the stream."""
    positions = set(wanted)
    some = np.array([offset for _, offset in positions], np.int64)
    for piece in slices():
        partitions, offsets = piece.batch.partitions[piece.events], piece.batch.offsets[piece.events]
        for row in np.flatnonzero(np.isin(offsets, some)).tolist():
            if (position := (int(partitions[row]), int(offsets[row]))) in positions:
                yield RecomputedRow(
                    partition=position[0],
                    offset=position[1],
                    event=piece.batch.columns.take(piece.events[row : row + 1]),
                    row=piece.row(row),
                )


def differences(engine: Engine, row: RecomputedRow, online: Features | None) -> tuple[Difference, ...]:
    """The columns in which a logged row and a recomputed one differ; all of them if nothing was logged."""
    floats, numbers = row.row.block.view(np.uint32)[0].tolist(), row.row.ids[0].tolist()
    mine = dict(zip(engine.float_columns, map(Value.of_float, floats), strict=True))
    mine |= dict(zip(engine.category_columns, map(Value.of_id, numbers), strict=True))
    ids = set(engine.category_columns)
    theirs = {name: _logged(value, is_id=name in ids) for name, value in (online or {}).items()}
    return tuple(
        Difference(column=name, online=theirs.get(name), recomputed=mine.get(name))
        for name in {**mine, **theirs}
        if theirs.get(name) != mine.get(name)
    )


def _logged(value: float | str | None, *, is_id: bool) -> Value:
    return Value.of_id(value) if is_id and isinstance(value, int) else Value.of_float(logged_bits(value))


def explain(engine: Engine, slices: Slices, row: RecomputedRow, online: PublishedRow) -> Mismatch:
    """A differing row with the events behind it; reads the stream once more."""
    found = differences(engine, row, online.features)
    columns = {each.column for each in found}
    return Mismatch(
        partition=row.partition,
        offset=row.offset,
        key=_field(row.event, engine.schema.key)[0],
        event_time=int(row.event.times[0]),
        online_digest=f"{online.digest:016x}",
        recomputed_digest=f"{row.digest:016x}",
        is_logged=online.features is not None,
        differences=found,
        evidence=tuple(_evidence(engine, slices, row, columns)),
    )


def _evidence(engine: Engine, slices: Slices, row: RecomputedRow, columns: set[str]) -> Iterator[Evidence]:
    searches = []
    for declared in engine.sets:
        pairs = zip(declared.columns, declared.features.values(), strict=True)
        kinds = {name: kind for name, kind in pairs if name in columns}
        if kinds:
            searches.append(
                _Search(declared, kinds, row, engine.schema.time.max_late // _MS, int(row.event.times[0]))
            )
    watermark = NO_TIME
    for piece in slices():
        its = np.flatnonzero(piece.batch.partitions == row.partition)
        if not len(its):
            continue
        events, offsets = piece.batch.columns.take(its), piece.batch.offsets[its]
        watermarks = np.maximum(np.maximum.accumulate(events.times), watermark)
        watermark = int(watermarks[-1])
        for search in searches:
            search.look(events, offsets, watermarks)
        if offsets[-1] >= row.offset:
            break
    for search in searches:
        yield search.evidence()


@dataclass(slots=True)
class _Search:
    """Follows one entity up to a row."""

    declared: FeatureSet
    kinds: Mapping[str, Kind]
    row: RecomputedRow
    max_late: int
    now: int
    newest: int = NO_TIME
    seen: list[tuple[int, bool, NDArray[np.bool_]]] = field(default_factory=list)
    """Of every event since the entity began: time, whether it is late, and by kind whether it is folded for it."""
    shown: deque[tuple[int, Mapping[str, Any]]] = field(default_factory=lambda: deque(maxlen=EVENTS))

    def look(self, events: Columns, offsets: Int64s, watermarks: Int64s) -> None:
        """Take in the entity's events of the partition's next ones."""
        places = np.flatnonzero((offsets <= self.row.offset) & self._is_mine(events, offsets))
        mine = events.take(places)
        takes_part = np.column_stack([_takes_part(mine, kind) for kind in self.kinds.values()])
        fields = {name: _field(mine, name) for name in self._fields()}
        for i, place in enumerate(places.tolist()):
            offset = int(offsets[place])
            self._pass(offset, int(mine.times[i]), int(watermarks[place]), takes_part[i])
            self.shown.append((offset, {name: values[i] for name, values in fields.items()}))

    def _is_mine(self, events: Columns, offsets: Int64s) -> NDArray[np.bool_]:
        if not self.declared.key:
            return offsets == self.row.offset
        return np.logical_and.reduce([_equals(events, self.row.event, name) for name in self.declared.key])

    def _pass(self, offset: int, time: int, watermark: int, takes_part: NDArray[np.bool_]) -> None:
        """One event in log order: expiry, then the row is read, then the event is folded."""
        if self._has_expired(time, watermark):
            self.newest = NO_TIME
            self.seen.clear()
            self.shown.clear()
        self.now = max(time, self.newest)
        is_late = time < watermark - self.max_late
        is_read = offset != self.row.offset or self.declared.include_current or not self.declared.key
        self.seen.append((time, is_late, takes_part & (is_read and not is_late)))
        self.newest = self.newest if is_late else self.now

    def _has_expired(self, time: int, watermark: int) -> bool:
        ttl = self.declared.expires_after
        if ttl is None or self.newest == NO_TIME:
            return False
        return time - self.newest > ttl // _MS or watermark - self.newest > ttl // _MS + self.max_late

    def _fields(self) -> list[str]:
        read = set(self.declared.key)
        for kind in self.kinds.values():
            expressions = [kind.value()] if isinstance(kind, RowKind) else kind.expressions()
            read |= {name for expression in expressions for name in expression.fields()}
        return sorted(read)

    def evidence(self) -> Evidence:
        """What was found."""
        starts = np.array([_start(kind, self.now) for kind in self.kinds.values()])
        counted = [folded & (starts <= time) for time, _, folded in self.seen]
        last = list(zip(self.seen, counted, strict=True))[-EVENTS:]
        return Evidence(
            columns=tuple(self.kinds),
            entity={name: _field(self.row.event, name)[0] for name in self.declared.key},
            now=self.now,
            total=len(self.seen),
            counting={name: int(sum(each[i] for each in counted)) for i, name in enumerate(self.kinds)},
            events=tuple(
                EventBehind(
                    offset=offset,
                    event_time=time,
                    is_late=is_late,
                    fields=fields,
                    counts_for=tuple(
                        name for name, it_does in zip(self.kinds, counts, strict=True) if it_does
                    ),
                )
                for (offset, fields), ((time, is_late, _), counts) in zip(self.shown, last, strict=True)
            ),
        )


def _takes_part(events: Columns, kind: Kind) -> NDArray[np.bool_]:
    """``(n,) bool``: whether the predicate holds and every value is there."""
    takes_part = np.ones(len(events), np.bool_)
    if not isinstance(kind, KeyedKind):
        return takes_part
    for expression in kind.expressions():
        found = evaluate(events, expression)
        takes_part &= found.is_true() if expression is kind.where else found.valid
    return takes_part


def _start(kind: Kind, now: int) -> int:
    """The first moment that counts as of ``now``."""
    if not isinstance(kind, WindowedKind):
        return NO_TIME
    window = kind.windowed()
    return (now - window.length_ms) // window.tile_ms * window.tile_ms


def _equals(events: Columns, one: Columns, name: str) -> NDArray[np.bool_]:
    """``(n,) bool``: whether a key field has the value that it has in ``one``; null equals nothing."""
    found, wanted = evaluate(events, col(name)), evaluate(one, col(name))
    return found.valid & wanted.valid[0] & (found.data == wanted.data[0])


def _field(events: Columns, name: str) -> list[Any]:
    return field_array(events, name).to_pylist()

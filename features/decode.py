"""Raw records to columns: codec, event time and partition key; what is at fault is named.

*Malformed* is a pure function of a record and the declaration, so replay agrees with the worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from features.codecs.json import Decoded, JsonCodec
from features.columns import Bytes, Columns, Int64s
from features.errors import Malformed
from features.kernels.texts import same_integers, same_texts
from features.kernels.times import EARLIEST, LATEST, parse_iso8601
from features.records import NO_TIMESTAMP, RawRecords
from features.schema import EventTime, Schema

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """The well-formed events of a slice, and by its index what is wrong with each other record."""

    columns: Columns
    malformed: dict[int, Malformed]

    @classmethod
    def of(cls, columns: Columns, malformed: dict[int, Malformed]) -> "DecodedRecords":
        """Leave the malformed ones out of the columns."""
        if malformed:
            is_well_formed = np.ones(len(columns), np.bool_)
            is_well_formed[list(malformed)] = False
            columns = columns.take(is_well_formed)
        return cls(columns=columns, malformed=malformed)


class RecordDecoder:
    """Decodes slices of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._codec = JsonCodec(schema)

    def decode(self, records: RawRecords) -> DecodedRecords:
        """Columns of the well-formed records and the reason for each other one."""
        columns, malformed = columns_of(self.schema, self._codec.decode(records.values))
        self._check_ahead(columns, records.timestamps, malformed)
        self._check_keys(columns, records.keys, malformed)
        return DecodedRecords.of(columns, malformed)

    def _check_ahead(self, columns: Columns, timestamps: Int64s, malformed: dict[int, Malformed]) -> None:
        rule = self.schema.time
        max_ahead = rule.max_ahead // timedelta(milliseconds=1)
        ahead = (columns.times - timestamps > max_ahead) & (timestamps != NO_TIMESTAMP)
        for row in np.flatnonzero(ahead).tolist():
            by = (int(columns.times[row]) - int(timestamps[row])) / 1000
            detail = f"{rule.field!r} is {by:.3f} s past the record's Kafka timestamp; max_ahead is {rule.max_ahead}"
            malformed.setdefault(row, Malformed("time_ahead", detail))

    def _check_keys(
        self, columns: Columns, keys: Sequence[bytes | None], malformed: dict[int, Malformed]
    ) -> None:
        name = self.schema.key
        data, refs = _pack(keys)
        same: Bytes = np.empty(len(keys), np.uint8)
        word, valid = columns.word(name), columns.is_valid(name)
        if self.schema[name].type is str:
            held = np.where(valid.view(np.bool_), word, -1)
            same_texts(columns.base, held, data.ctypes.data, refs, same)
        else:
            same_integers(word, valid, data.ctypes.data, refs, same)
        for row in np.flatnonzero(same == 0).tolist():
            if row not in malformed:
                malformed[row] = Malformed(
                    "key_mismatch", f"the Kafka key {keys[row]!r} is not the value of {name!r}"
                )


def columns_of(schema: Schema, decoded: Decoded) -> tuple[Columns, dict[int, Malformed]]:
    """Columns of every row with its event time, and what is wrong so far."""
    columns = Columns(
        schema=schema,
        buffer=decoded.buffer,
        words=decoded.words,
        valid=decoded.valid,
        times=np.empty(decoded.words.shape[1], np.int64),
        positions=np.arange(decoded.words.shape[1]),
    )
    rule, malformed = schema.time, dict(decoded.malformed)
    columns.times[:] = event_times(columns, rule)
    for row in np.flatnonzero((columns.times < EARLIEST) | (columns.times > LATEST)).tolist():
        detail = f"{rule.field!r} is no time in {rule.unit} between year 1 and 9999"
        malformed.setdefault(row, Malformed("unusable_time", detail))
    return columns, malformed


def event_times(columns: Columns, rule: EventTime) -> Int64s:
    """``(n,) int64`` ms since the epoch; a time that can't be used lies outside `EARLIEST` to `LATEST`.

    Integers are rounded down to the millisecond, floats to the nearest one.
    """
    valid = columns.is_valid(rule.field).view(np.bool_)
    if rule.unit == "iso8601":
        times: Int64s = np.empty(len(columns), np.int64)
        parse_iso8601(columns.base, columns.word(rule.field), columns.is_valid(rule.field), times)
        return times
    if columns.schema[rule.field].type is float:
        with np.errstate(invalid="ignore", over="ignore"):
            millis = np.rint(columns.number(rule.field) * (1000 / _PER_SECOND[rule.unit]))
        usable = valid & (millis >= EARLIEST) & (millis <= LATEST)
        return np.where(usable, millis, LATEST + 1).astype(np.int64)
    word = columns.word(rule.field)
    if rule.unit == "s":
        usable = valid & (word >= EARLIEST // 1000) & (word <= LATEST // 1000)
        return np.where(usable, np.where(usable, word, 0) * 1000, LATEST + 1)
    return np.where(valid, word // (_PER_SECOND[rule.unit] // 1000), LATEST + 1)


def _pack(texts: Sequence[bytes | None]) -> tuple[Bytes, Int64s]:
    """One buffer for the keys and a reference to each, -1 for null."""
    rows = [text or b"" for text in texts] if None in texts else texts
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))  # type: ignore[arg-type]
    starts = np.cumsum(lengths) - lengths
    refs = (starts << 24) | lengths
    if rows is not texts:
        refs[[i for i, text in enumerate(texts) if text is None]] = -1
    return np.frombuffer(b"".join(rows) + bytes(16), np.uint8), refs  # type: ignore[arg-type]

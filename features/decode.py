"""Raw records to columns: codec, event time and partition key; what is at fault is named.

*Malformed* is a pure function of a record and the declaration, so replay agrees with the worker.
"""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from features.byte_column import ByteColumn
from features.codecs.json import Decoded, JsonCodec
from features.columns import Bytes, Columns
from features.errors import Malformed
from features.kernels.checks import AHEAD, FLOAT, PARTS, SECONDS, TEXT, find_faults, read_times
from features.kernels.times import EARLIEST, LATEST
from features.records import RawRecords
from features.schema import Schema

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
            columns = columns.take(np.flatnonzero(is_well_formed))
        return cls(columns=columns, malformed=malformed)


class RecordDecoder:
    """Decodes slices of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._codec = JsonCodec(schema)
        self._most_ahead = schema.time.max_ahead // timedelta(milliseconds=1)
        self._is_key_text = schema[schema.key].type is str

    def decode(self, records: RawRecords) -> DecodedRecords:
        """Columns of the well-formed records and the reason for each other one."""
        columns, malformed = columns_of(self.schema, self._codec.decode(records.values))
        faults = self._faults(columns, records)
        if faults is not None:
            for row in np.flatnonzero(faults).tolist():
                malformed.setdefault(row, self._named(columns, records, row, int(faults[row])))
        return DecodedRecords.of(columns, malformed)

    def _faults(self, columns: Columns, records: RawRecords) -> Bytes | None:
        """``(n,) uint8`` as `find_faults` writes it, or ``None`` if there are none."""
        name, keys = self.schema.key, ByteColumn.of(records.keys)
        faults: Bytes = np.empty(len(keys), np.uint8)
        count = find_faults(
            columns.times, records.timestamps, self._most_ahead, self._is_key_text, columns.base, columns.word(name),
            columns.is_valid(name), keys.table, faults,
        )  # fmt: skip
        return faults if count else None

    def _named(self, columns: Columns, records: RawRecords, row: int, fault: int) -> Malformed:
        rule = self.schema.time
        if fault & AHEAD:
            by = (int(columns.times[row]) - int(records.timestamps[row])) / 1000
            return Malformed(
                "time_ahead",
                f"{rule.field!r} is {by:.3f} s past the record's Kafka timestamp; max_ahead is {rule.max_ahead}",
            )
        detail = f"the Kafka key {records.keys[row]!r} is not the value of {self.schema.key!r}"
        return Malformed("key_mismatch", detail)


def columns_of(schema: Schema, decoded: Decoded) -> tuple[Columns, dict[int, Malformed]]:
    """Columns of every row with its event time, and what is wrong so far.

    Integer times are rounded down to the millisecond, floats to the nearest one.
    """
    rule, n = schema.time, decoded.words.shape[1]
    columns = Columns(
        schema=schema,
        buffer=decoded.buffer,
        words=decoded.words,
        valid=decoded.valid,
        times=np.empty(n, np.int64),
        positions=np.arange(n),
    )
    per_second = _PER_SECOND.get(rule.unit, 1000)
    unusable = read_times(
        _sort(schema), 1000 / per_second, per_second // 1000, columns.base, columns.word(rule.field),
        columns.is_valid(rule.field), columns.times,
    )  # fmt: skip
    malformed = dict(decoded.malformed)
    if unusable:
        detail = f"{rule.field!r} is no time in {rule.unit} between year 1 and 9999"
        for row in np.flatnonzero((columns.times < EARLIEST) | (columns.times > LATEST)).tolist():
            malformed.setdefault(row, Malformed("unusable_time", detail))
    return columns, malformed


def _sort(schema: Schema) -> int:
    """What stands in the time field, for `read_times`."""
    if schema.time.unit == "iso8601":
        return TEXT
    if schema[schema.time.field].type is float:
        return FLOAT
    return SECONDS if schema.time.unit == "s" else PARTS

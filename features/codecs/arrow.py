"""Typed Arrow tables to columns: the same meaning as the fields' JSON, without the text."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.codecs.json import Decoded
from features.columns import Bytes, Int64s
from features.errors import Malformed, Misdeclared
from features.kernels.lanes import refer_long, refer_short
from features.schema import Field, Schema, did_you_mean

_PER_SECOND = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


class ArrowCodec:
    """Decodes typed tables of one schema; a null in a required field makes the row malformed."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def check(self, schema: pa.Schema) -> None:
        """Raise `Misdeclared` unless the table has the fields in usable types."""
        for field in self.schema.fields:
            if field.name not in schema.names:
                if field.optional:
                    continue
                raise Misdeclared(
                    f"The table has no column {field.name!r}; {did_you_mean(field.name, schema.names)}"
                )
            if not self._is_usable(field, schema.field(field.name).type):
                raise Misdeclared(
                    f"Column {field.name!r} is {schema.field(field.name).type}, and the field is a {field.type.__name__}; cast it"
                )

    def decode(self, table: pa.Table | pa.RecordBatch) -> Decoded:
        """Columns of every row; texts stay where Arrow has them if there is but one text field."""
        words = np.empty((len(self.schema.fields), len(table)), np.int64)
        valid = np.empty(words.shape, np.uint8)
        texts: list[Bytes] = []
        used = 0
        for row, field in enumerate(self.schema.fields):
            if field.name not in table.schema.names:
                valid[row] = 0
                continue
            column = table[field.name]
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
            valid[row] = pc.is_valid(column).to_numpy(zero_copy_only=False) if column.null_count else 1
            if field.type is str:
                texts.append(_refer(column, used, words[row]))
                used += len(texts[-1])
            elif field.type is float:
                words.view(np.float64)[row] = _filled(column.cast(pa.float64()))
            else:
                words[row] = self._integers(field, column)
        buffer = texts[0] if len(texts) == 1 else np.concatenate([*texts, np.empty(1, np.uint8)])
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=self._malformed(valid))

    def _integers(self, field: Field, column: pa.Array) -> Int64s:
        if pa.types.is_timestamp(column.type):
            unit = self.schema.time.unit
            column = column.cast(pa.timestamp(column.type.unit))
            if column.type.unit != unit:
                column = pc.floor_temporal(column, unit=_PER_SECOND[unit]).cast(pa.timestamp(unit))
        target = pa.bool_() if field.type is bool else pa.int64()
        return _filled(column.cast(target).cast(pa.int64()))

    def _is_usable(self, field: Field, type_: pa.DataType) -> bool:
        if pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if field.type is str:
            return bool(
                pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
            )
        if field.type is bool:
            return bool(pa.types.is_boolean(type_))
        is_time = field.name == self.schema.time.field and pa.types.is_timestamp(type_)
        is_number = pa.types.is_integer(type_) or (field.type is float and pa.types.is_floating(type_))
        return bool(is_number or (is_time and field.type is int))

    def _malformed(self, valid: Bytes) -> dict[int, Malformed]:
        malformed: dict[int, Malformed] = {}
        for row, field in enumerate(self.schema.fields):
            if not field.optional:
                for position in np.flatnonzero(valid[row] == 0).tolist():
                    malformed.setdefault(
                        position, Malformed("missing_field", f"the row has no {field.name!r}")
                    )
        return malformed


def _filled(column: pa.Array) -> Int64s:
    return (column.fill_null(0) if column.null_count else column).to_numpy()


def _refer(column: pa.Array, before: int, refs: Int64s) -> Bytes:
    """Write references to the texts, ``before`` added to where they stand; returns the bytes that hold them."""
    if pa.types.is_dictionary(column.type):
        of_each = np.zeros(len(column.dictionary) + 1, np.int64)
        data = _refer(column.dictionary, before, of_each[:-1])
        np.take(of_each, _filled_with(column.indices, len(column.dictionary)), out=refs)
        return data
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    is_short = pa.types.is_string(column.type)
    _, ends, data = column.buffers()
    bounds = np.frombuffer(ends or b"", np.int32 if is_short else np.int64)
    bounds = bounds[column.offset : column.offset + len(column) + 1]
    if not len(column) or data is None or bounds[0] == bounds[-1]:
        refs[:] = before << 24
        return np.zeros(1, np.uint8)
    first, last = int(bounds[0]), int(bounds[-1])
    (refer_short if is_short else refer_long)(bounds, before - first, refs)
    return np.frombuffer(data, np.uint8)[first:last]


def _filled_with(indices: pa.Array, fill: int) -> Int64s:
    return (indices.fill_null(fill) if indices.null_count else indices).to_numpy()

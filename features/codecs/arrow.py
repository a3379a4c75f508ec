"""Typed Arrow tables to columns: the same meaning as the fields' JSON, without the text."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.codecs.json import Decoded
from features.columns import Bytes, Int64s
from features.errors import Malformed, Misdeclared
from features.kernels.scan import PADDING
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

    def decode(self, table: pa.Table) -> Decoded:
        """Columns of every row."""
        words = np.zeros((len(self.schema.fields), len(table)), np.int64)
        valid = np.zeros((len(self.schema.fields), len(table)), np.uint8)
        texts: list[bytes] = []
        used = 0
        for row, field in enumerate(self.schema.fields):
            if field.name not in table.schema.names:
                continue
            column = table[field.name].combine_chunks()
            valid[row] = pc.is_valid(column).to_numpy(zero_copy_only=False)
            if field.type is str:
                data, refs = _texts(column)
                words[row] = refs + (used << 24)
                texts.append(data)
                used += len(data)
            elif field.type is float:
                words.view(np.float64)[row] = column.cast(pa.float64()).fill_null(0).to_numpy()
            else:
                words[row] = self._integers(field, column)
        buffer = np.frombuffer(b"".join(texts) + bytes(PADDING), np.uint8)
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=self._malformed(valid))

    def _integers(self, field: Field, column: pa.Array) -> Int64s:
        if pa.types.is_timestamp(column.type):
            unit = self.schema.time.unit
            column = pc.floor_temporal(column.cast(pa.timestamp(column.type.unit)), unit=_PER_SECOND[unit])
            column = column.cast(pa.timestamp(unit))
        target = pa.bool_() if field.type is bool else pa.int64()
        return column.cast(target).cast(pa.int64()).fill_null(0).to_numpy()

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


def _texts(column: pa.Array) -> tuple[bytes, Int64s]:
    """One run of bytes, and a reference to each text."""
    if pa.types.is_dictionary(column.type):
        data, refs = _texts(column.dictionary)
        return data, np.append(refs, 0)[column.indices.fill_null(len(refs)).to_numpy()]
    column = column.cast(pa.large_binary())
    lengths: Int64s = pc.binary_length(column).fill_null(0).cast(pa.int64()).to_numpy()
    starts: Sequence[int] | Int64s = np.frombuffer(column.buffers()[1], np.int64)[
        column.offset : column.offset + len(column)
    ]
    data = column.buffers()[2]
    return (data.to_pybytes() if data else b""), (np.asarray(starts) << 24) | lengths

"""Typed Arrow tables to columns: the same meaning as the fields' JSON, without the text."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.codecs.json import Decoded
from features.codecs.judge import LONGEST_RECORD, unquoted
from features.columns import Bytes, Int64s
from features.errors import Malformed, Misdeclared
from features.kernels.lanes import refer_long, refer_short
from features.paths import FieldPath, path_text
from features.schema import Field, Schema, did_you_mean

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class ArrowCodec:
    """Decodes typed tables of one schema; a null or NaN in a required field makes the row malformed.

    A field is read where its path says, in struct and list columns, else from the column of its name.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def check(self, schema: pa.Schema) -> None:
        """Raise `Misdeclared` unless the table has the fields in usable types."""
        for field in self.schema.fields:
            if (path := path_in(schema, field)) is None:
                if field.optional:
                    continue
                where = path_text(field.json_path)
                at = "" if where == field.name else f", nor a value at {where!r} in it"
                raise Misdeclared(
                    f"The table has no column {field.name!r}{at}; {did_you_mean(field.name, schema.names)}"
                )
            if not self._is_usable(field, type_ := _type_at(schema, path)):
                raise Misdeclared(
                    f"Column {path_text(path)!r} is {type_}, and the field is a {field.type.__name__}; cast it"
                )

    def decode(self, table: pa.Table | pa.RecordBatch) -> Decoded:
        """Columns of every row; texts stay where Arrow has them if there is but one text field."""
        words = np.empty((len(self.schema.fields), len(table)), np.int64)
        valid = np.zeros(words.shape, np.uint8)
        malformed: dict[int, Malformed] = {}
        texts: list[Bytes] = []
        used = 0
        for row, field in enumerate(self.schema.fields):
            if (column := column_of(table, field)) is not None:
                if pa.types.is_dictionary(column.type) and field.type is not str:
                    column = column.dictionary_decode()
                valid[row] = pc.is_valid(column).to_numpy(zero_copy_only=False) if column.null_count else 1
                if field.type is str:
                    texts.append(_refer(_fitting(field, column, malformed), used, words[row]))
                    used += len(texts[-1])
                elif _is_text(column.type) or pa.types.is_decimal(column.type):
                    words[row] = _read(field, column.cast(pa.string()), malformed)
                elif field.type is float:
                    words[row] = _floats(field, column, valid[row], malformed)
                else:
                    words[row] = self._integers(field, column, malformed)
            if not field.optional:
                for position in np.flatnonzero(valid[row] == 0).tolist():
                    missing = Malformed("missing_field", f"the row has no {field.name!r}")
                    malformed.setdefault(position, missing)
        buffer = texts[0] if len(texts) == 1 else np.concatenate([*texts, np.empty(1, np.uint8)])
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=malformed)

    def _integers(self, field: Field, column: pa.Array, malformed: dict[int, Malformed]) -> Int64s:
        words = _filled(column.cast(pa.int64(), safe=False))
        if pa.types.is_timestamp(column.type):
            ticks, wanted = _PER_SECOND[column.type.unit], _PER_SECOND[self.schema.time.unit]
            if ticks < wanted:
                most = (2**63 - 1) // (wanted // ticks)
                _refuse(field, (words > most) | (words < -most), malformed)
                words = words * (wanted // ticks)
            elif ticks > wanted:
                words = words // (ticks // wanted)
        elif pa.types.is_uint64(column.type):
            _refuse(field, words < 0, malformed)
        return words

    def _is_usable(self, field: Field, type_: pa.DataType) -> bool:
        if pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if field.type is str:
            return _is_text(type_)
        if field.type is bool:
            return bool(pa.types.is_boolean(type_))
        is_time = field.name == self.schema.time.field and pa.types.is_timestamp(type_)
        is_number = pa.types.is_integer(type_) or (field.type is float and pa.types.is_floating(type_))
        is_number |= pa.types.is_decimal(type_) and (field.type is float or type_.scale == 0)
        is_number |= field.quoted and _is_text(type_)
        return bool(is_number or (is_time and field.type is int))


def column_of(table: pa.Table | pa.RecordBatch, field: Field) -> pa.Array | None:
    """The values of a field, null where an object, array or item of its path is not there; ``None`` without a column."""
    if (path := path_in(table.schema, field)) is None:
        return None
    column = table[path[0]]
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    for step in path[1:]:
        if isinstance(step, int):
            items = pc.list_slice(column, step, step + 1, return_fixed_size_list=True)  # null where too short
            column = pc.list_element(items, 0)
        else:
            column = pc.struct_field(column, column.type.get_field_index(step))
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        return column.dictionary_decode()
    return column


def path_in(schema: pa.Schema, field: Field) -> FieldPath | None:
    """Where a table has a field: under its path, or else in the column of its name; ``None`` if nowhere."""
    if _type_at(schema, field.json_path) is not None:
        return field.json_path
    return (field.name,) if field.name in schema.names else None


def _type_at(schema: pa.Schema, path: FieldPath) -> pa.DataType | None:
    if path[0] not in schema.names:
        return None
    type_ = schema.field(path[0]).type
    for step in path[1:]:
        if isinstance(step, int) and (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
            type_ = type_.value_type
        elif isinstance(step, str) and pa.types.is_struct(type_) and type_.get_field_index(step) >= 0:
            type_ = type_.field(step).type
        else:
            return None
    return type_


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_))


def _fitting(field: Field, column: pa.Array, malformed: dict[int, Malformed]) -> pa.Array:
    """Texts, without those that are too large for a reference; they are malformed."""
    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not pa.types.is_string_view(texts.type) and texts.nbytes <= LONGEST_RECORD:  # all of them together
        return column
    texts = texts.cast(pa.large_binary())
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= LONGEST_RECORD:
        return column
    texts = column.cast(pa.large_string())
    is_fitting = pc.less_equal(pc.binary_length(texts), LONGEST_RECORD)
    for position in np.flatnonzero(
        pc.invert(is_fitting).fill_null(False).to_numpy(zero_copy_only=False)
    ).tolist():
        detail = f"{field.name!r} has more than {LONGEST_RECORD} bytes"
        malformed.setdefault(position, Malformed("too_large", detail))
    return pc.if_else(is_fitting, texts, None)


def _floats(field: Field, column: pa.Array, valid: Bytes, malformed: dict[int, Malformed]) -> Int64s:
    """Numbers as the bits of float64, integers as the nearest one; NaN is missing, an infinity malformed."""
    numbers = _filled(column.cast(pa.float64(), safe=False))
    if not np.isfinite(numbers).all():
        valid &= ~np.isnan(numbers)
        _refuse(field, np.isinf(numbers), malformed)
    return numbers.view(np.int64)


def _read(field: Field, column: pa.Array, malformed: dict[int, Malformed]) -> Int64s:
    """Numbers written as texts, each different text read once, as one in quotes in JSON is."""
    column = column.dictionary_encode()
    places = column.indices.fill_null(len(column.dictionary)).to_numpy()
    read = np.zeros(len(column.dictionary) + 1, np.float64 if field.type is float else np.int64)
    for place, text in enumerate(column.dictionary.to_pylist()):
        try:
            read[place] = unquoted(field, text)
        except Malformed as reason:
            for position in np.flatnonzero(places == place).tolist():
                malformed.setdefault(position, reason)
    return read.view(np.int64)[places]


def _refuse(field: Field, at_fault: NDArray[np.bool_], malformed: dict[int, Malformed]) -> None:
    for position in np.flatnonzero(at_fault).tolist():
        detail = f"Number out of range - at `$.{path_text(field.json_path)}`"
        malformed.setdefault(position, Malformed("out_of_range", detail))


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

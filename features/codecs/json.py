"""JSON objects to columns: a compiled scanner for ordinary rows, msgspec for the rest.

msgspec is the judge: what it accepts is accepted, what it refuses is malformed with its reason. The
scanner (`features.kernels.scan`) decides only rows on which both agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.columns import Bytes, Int64s
from features.errors import Malformed
from features.kernels.scan import BOOLEAN, FLOAT, INTEGER, PADDING, POWERS, SKIP, TEXT, scan_rows
from features.schema import Field, Schema

LONGEST_RECORD = 2**24 - 1
"""Bytes; a reference holds a length of 24 bits."""

MOST_UNKNOWN_NAMES = 64
"""Unknown names that the scanner learns to skip."""

_KINDS = {int: INTEGER, float: FLOAT, bool: BOOLEAN, str: TEXT}
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What a codec makes of ``n`` values; the columns of a malformed row are undefined."""

    buffer: Bytes
    words: Int64s
    valid: Bytes
    malformed: Mapping[int, Malformed]


class JsonCodec:
    """Decodes the values of one schema; learns the order in which fields come.

    Args:
        schema: What the values look like.
        scans: Whether the scanner looks first; it can't look into nested values.
    """

    def __init__(self, schema: Schema, *, scans: bool = True) -> None:
        self.schema = schema
        self._decoder = msgspec.json.Decoder(_object_type(schema))
        self._scanner = _ScanTable(schema.fields)
        self._scans = scans and all(len(field.json_path) == 1 for field in schema.fields)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a slice; ``None`` and what msgspec refuses is malformed."""
        rows = [value or b"" for value in values] if None in values else values
        buffer = np.frombuffer(b"\0".join([*rows, bytes(PADDING)]), np.uint8)  # type: ignore[list-item]
        fields = len(self.schema.fields)
        words = np.empty((fields, len(rows)), np.int64)
        valid = np.zeros((fields, len(rows)), np.uint8)
        odd = self._scanner.scan(buffer, rows, words, valid) if self._scans else range(len(rows))
        return self._judge(buffer, values, odd, words, valid)

    def _judge(
        self, buffer: Bytes, values: Sequence[bytes | None], odd: Sequence[int], words: Int64s, valid: Bytes
    ) -> Decoded:
        malformed: dict[int, Malformed] = {}
        texts = bytearray()
        for row in odd:
            try:
                items = self._items(values[row])
            except Malformed as reason:
                malformed[row] = reason
            else:
                _write_row(self.schema.fields, items, row, words, valid, texts, buffer.size)
        if texts:
            buffer = np.concatenate([buffer, np.frombuffer(bytes(texts) + bytes(PADDING), np.uint8)])
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=malformed)

    def _items(self, value: bytes | None) -> list[Any]:
        """The row's values in the schema's order."""
        if value is None:
            raise Malformed("tombstone", "the record has no value")
        if not value.strip():
            raise Malformed("invalid_json", "the record's value is empty")
        if len(value) > LONGEST_RECORD:
            raise Malformed(
                "too_large", f"the record has {len(value)} bytes; at most {LONGEST_RECORD} can be read"
            )
        try:
            decoded = self._decoder.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _malformed(error) from error
        return [_at_path(decoded, field.json_path) for field in self.schema.fields]


class _ScanTable:
    """The schema's names as the scanner's table, and behind them unknown names.

    These are learned from the first row of slices number 1, 2, 4, 8 and so on: an unknown name that was not
    learned is skipped as well, only slower.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self.required = np.array([not field.optional for field in fields], np.uint8)
        self._learned: set[str] = set()
        self._slices = 0
        self._write_table()

    def scan(self, buffer: Bytes, rows: Sequence[bytes | None], words: Int64s, valid: Bytes) -> list[int]:
        """Fill the columns; returns the odd rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))  # type: ignore[arg-type]
        self._slices += 1
        if rows and self._slices.bit_count() == 1 and len(self._learned) < MOST_UNKNOWN_NAMES:
            self._learn(rows[0])
        odd: NDArray[np.uint8] = np.empty(len(rows), np.uint8)
        count = scan_rows(
            buffer.ctypes.data, lengths, LONGEST_RECORD, *self._addresses, words, valid, self.required, odd,
        )  # fmt: skip
        return np.flatnonzero(odd).tolist() if count else []

    def _learn(self, row: bytes | None) -> None:
        """Put the row's unknown names into the table: a known name costs less to skip."""
        try:
            names = msgspec.json.decode(row or b"", type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        known = {field.json_path[0] for field in self._fields}
        if new := set(names) - known - self._learned:
            self._learned |= set(sorted(new)[: MOST_UNKNOWN_NAMES - len(self._learned)])
            self._write_table()

    def _write_table(self) -> None:
        names = [field.json_path[0] for field in self._fields] + sorted(self._learned)
        kinds = [_KINDS[field.type] for field in self._fields] + [SKIP] * len(self._learned)
        quoted = [msgspec.json.encode(name) for name in names]
        width = max(-(-len(name) // 8) for name in quoted)
        table = np.zeros((len(names), 2 + 2 * width), np.uint64)
        for row, (kind, name) in enumerate(zip(kinds, quoted, strict=True)):
            table[row, :2] = kind, len(name)
            table[row, 2::2] = np.frombuffer(name.ljust(8 * width, b"\0"), np.uint64)
            table[row, 3::2] = np.frombuffer((b"\xff" * len(name)).ljust(8 * width, b"\0"), np.uint64)
        follows = (np.arange(len(names) + 1) + 1) % len(names)
        follows[-1] = 0
        self._arrays = table, follows
        self._addresses = (
            table.ctypes.data, table.strides[0], len(table), follows.ctypes.data, POWERS.ctypes.data,
        )  # fmt: skip


def _object_type(schema: Schema) -> type[msgspec.Struct]:
    tree: dict[str, Any] = {}
    for field in schema.fields:
        node = tree
        for name in field.json_path[:-1]:
            node = node.setdefault(name, {})
        node[field.json_path[-1]] = field
    return _struct("Event", tree)


def _struct(name: str, tree: Mapping[str, Any]) -> type[msgspec.Struct]:
    required: list[tuple[str, Any, Any, str]] = []
    optional: list[tuple[str, Any, Any, str]] = []
    for key, node in tree.items():
        kind: Any = (
            _struct(key, node) if isinstance(node, Mapping) else _Int64 if node.type is int else node.type
        )
        if _is_optional(node):
            optional.append((f"f_{len(optional)}_{len(required)}", kind | None, None, key))
        else:
            required.append((f"f_{len(optional)}_{len(required)}", kind, msgspec.NODEFAULT, key))
    declared = [*required, *optional]
    return msgspec.defstruct(
        name,
        [(attribute, kind, default) for attribute, kind, default, _ in declared],
        rename={attribute: key for attribute, _, _, key in declared},
        gc=False,
    )


def _is_optional(node: Any) -> bool:
    return all(map(_is_optional, node.values())) if isinstance(node, Mapping) else node.optional


def _at_path(decoded: Any, path: Sequence[str]) -> Any:
    for name in path:
        if decoded is None:
            return None
        fields = decoded.__struct_encode_fields__
        decoded = getattr(decoded, decoded.__struct_fields__[fields.index(name)])
    return decoded


def _write_row(  # noqa: PLR0913, PLR0917 - one row of every array
    fields: Sequence[Field],
    items: list[Any],
    row: int,
    words: Int64s,
    valid: Bytes,
    texts: bytearray,
    after: int,
) -> None:
    """Write a judged row; its texts are appended to ``texts``, which will stand behind the buffer."""
    floats = words.view(np.float64)
    for column, (field, item) in enumerate(zip(fields, items, strict=True)):
        valid[column, row] = item is not None
        if item is None:
            continue
        if field.type is str:
            encoded = item.encode()
            words[column, row] = ((after + len(texts)) << 24) | len(encoded)
            texts += encoded
        elif field.type is float:
            floats[column, row] = item
        else:
            words[column, row] = item


def _malformed(error: Exception) -> Malformed:
    """The judge's refusal in our words; its own sentence names the field."""
    detail = str(error)
    if isinstance(error, RecursionError):
        return Malformed("invalid_json", "nested too deeply")
    if not isinstance(error, msgspec.ValidationError):
        return Malformed("invalid_json", detail)
    if "missing required field" in detail or "got `null` - at" in detail:
        return Malformed("missing_field", detail)
    if detail.startswith("Expected `int` ") or "out of range" in detail:
        return Malformed("out_of_range", detail)
    return Malformed("wrong_type", detail)

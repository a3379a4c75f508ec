"""JSON objects to columns: a compiled scanner for ordinary rows, a judge for the rest.

The scanner (`features.codecs.scanner`) decides only rows on which both agree; what the judge
(`features.codecs.judge`) refuses is malformed with its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from features.codecs.judge import Judge
from features.codecs.scanner import Scanner
from features.columns import Bytes, Int64s
from features.errors import Malformed
from features.kernels.scan import PADDING
from features.schema import Field, Schema


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
        scans: Whether the scanner looks first.
    """

    def __init__(self, schema: Schema, *, scans: bool = True) -> None:
        self.schema = schema
        self._judge = Judge(schema)
        self._scanner = Scanner(schema.fields) if scans else None

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a slice; ``None`` and what the judge refuses is malformed."""
        rows = [value or b"" for value in values] if None in values else values
        buffer = np.frombuffer(b"\0".join([*rows, bytes(PADDING)]), np.uint8)  # type: ignore[list-item]
        fields = len(self.schema.fields)
        words = np.empty((fields, len(rows)), np.int64)
        if self._scanner is None:
            valid, odd = np.zeros((fields, len(rows)), np.uint8), list(range(len(rows)))
        else:
            valid, odd = self._scanner.scan(buffer, rows, words)  # type: ignore[arg-type]
        return self._with_odd(buffer, values, odd, words, valid)

    def _with_odd(
        self, buffer: Bytes, values: Sequence[bytes | None], odd: Sequence[int], words: Int64s, valid: Bytes
    ) -> Decoded:
        malformed: dict[int, Malformed] = {}
        texts = bytearray()
        for row in odd:
            try:
                items = self._judge.values(values[row])
            except Malformed as reason:
                malformed[row] = reason
            else:
                _write_row(self.schema.fields, items, row, words, valid, texts, buffer.size)
        if texts:
            buffer = np.concatenate([buffer, np.frombuffer(bytes(texts) + bytes(PADDING), np.uint8)])
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=malformed)


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

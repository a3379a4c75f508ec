"""JSON objects to columns: a compiled scanner for ordinary rows, a judge for the rest.

The scanner (`features.codecs.scanner`) decides only rows on which both agree; what the judge
(`features.codecs.judge`) refuses is malformed with its reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.codecs.judge import Judge
from features.codecs.scanner import Scanner
from features.columns import Bytes, Int64s
from features.errors import Malformed
from features.kernels.scan import PADDING
from features.schema import Schema


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
        rows: list[int] = []
        judged: list[Sequence[Any]] = []
        for row in odd:
            try:
                judged.append(self._judge.values(values[row]))
            except Malformed as reason:
                malformed[row] = reason
            else:
                rows.append(row)
        if rows:
            texts = self._write(np.array(rows), judged, words, valid, buffer.size)
            buffer = np.concatenate([buffer, np.frombuffer(texts + bytes(PADDING), np.uint8)])
        return Decoded(buffer=buffer, words=words, valid=valid, malformed=malformed)

    def _write(
        self,
        rows: NDArray[np.int64],
        judged: Sequence[Sequence[Any]],
        words: Int64s,
        valid: Bytes,
        after: int,
    ) -> bytes:
        """Write judged rows, column by column; returns their texts, which will stand behind the buffer."""
        floats, texts = words.view(np.float64), bytearray()
        for column, (field, items) in enumerate(
            zip(self.schema.fields, zip(*judged, strict=True), strict=True)
        ):
            valid[column, rows] = [item is not None for item in items]
            if field.type is str:
                encoded = [(item or "").encode() for item in items]
                lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
                words[column, rows] = ((after + len(texts) + np.cumsum(lengths) - lengths) << 24) | lengths
                texts += b"".join(encoded)
            else:
                (floats if field.type is float else words)[column, rows] = [
                    0 if item is None else item for item in items
                ]
        return bytes(texts)

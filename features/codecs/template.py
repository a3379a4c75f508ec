"""Columns to JSON: a template of literals and slots, written for a whole slice at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.kernels.emit import (
    DECIMAL_BYTES,
    DIGEST,
    ESCAPED_BYTES,
    INTEGER,
    LITERAL,
    NUMBER,
    TEXT,
    emit_rows,
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a template: ``TEXT``, ``INTEGER``, ``NUMBER`` or ``DIGEST``, and its column."""

    kind: int
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fillings:
    """What goes into the slots of ``n`` rows.

    Args:
        base: Address that texts refer to.
        texts: ``(columns, n) int64``: ``offset << 24 | length``, -1 for null.
        integers: ``(columns, n) int64``.
        valid: ``(columns, n) uint8``: 0 where the integer is null.
        numbers: ``(n, columns) float32``.
        digests: ``(n,) uint64``.
    """

    base: int
    texts: NDArray[np.int64]
    integers: NDArray[np.int64]
    valid: NDArray[np.uint8]
    numbers: NDArray[np.float32]
    digests: NDArray[np.uint64]


class JsonTemplate:
    """Writes one JSON text for each row."""

    def __init__(self, parts: Sequence[bytes | Slot]) -> None:
        literals = b"".join(part for part in parts if isinstance(part, bytes))
        self._literals = np.frombuffer(literals or b" ", np.uint8)
        operations, used = [], 0
        for part in parts:
            if isinstance(part, Slot):
                operations.append((part.kind, part.column, 0))
            else:
                operations.append((LITERAL, used, len(part)))
                used += len(part)
        self._operations = np.array(operations, np.int64)
        kinds = self._operations[:, 0].tolist()
        self._row_bytes = len(literals) + DECIMAL_BYTES * (
            kinds.count(INTEGER) + kinds.count(NUMBER) + kinds.count(DIGEST)
        )
        self._text_columns = [part.column for part in parts if isinstance(part, Slot) and part.kind == TEXT]

    def write(self, fillings: Fillings) -> tuple[list[bytes], list[int]]:
        """The texts, and the rows whose text is void: a number is not finite, under 1e-10 or from 1e15."""
        n = len(fillings.digests)
        texts = sum(
            int((np.maximum(fillings.texts[column], 0) & 0xFFFFFF).sum()) for column in self._text_columns
        )
        size = n * (self._row_bytes + 4 * len(self._text_columns)) + ESCAPED_BYTES * texts
        buffer, ends, failed = np.empty(size, np.uint8), np.empty(n, np.int64), np.empty(n, np.uint8)
        emit_rows(
            self._operations, self._literals.ctypes.data, fillings.base, fillings.texts, fillings.integers,
            fillings.valid, fillings.numbers, fillings.digests, buffer.ctypes.data, ends, failed,
        )  # fmt: skip
        if not n:
            return [], []
        data = buffer[: int(ends[-1])].tobytes()
        stops = ends.tolist()
        written = [data[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
        return written, np.flatnonzero(failed).tolist()

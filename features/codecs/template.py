"""Rows to JSON: a template of literals and slots, written for a whole slice at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.byte_column import ByteColumn
from features.columns import Columns
from features.kernels.emit import DECIMAL_BYTES, END, LITERAL, emit_rows
from features.kernels.memory import address_of
from features.rows import Rows


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a template.

    Args:
        kind: An operation of `features.kernels.emit`.
        column: The field or column that it writes.
        limit: Of a sample.
    """

    kind: int
    column: int = 0
    limit: int = 0


class JsonTemplate:
    """Writes the same texts for each row.

    Args:
        texts: The parts of each.
    """

    def __init__(self, *texts: Sequence[bytes | Slot]) -> None:
        parts = [part for text in texts for part in (*text, Slot(END))]
        literals = b"".join(part for part in parts if isinstance(part, bytes))
        self._literals = np.frombuffer(literals or b" ", np.uint8)
        self._literals_at = address_of(self._literals)
        operations, used = [], 0
        for part in parts:
            if isinstance(part, Slot):
                operations.append((part.kind, part.column, part.limit))
            else:
                operations.append((LITERAL, used, len(part)))
                used += len(part)
        self._operations = np.array(operations, np.int64)
        self._row_bytes = used + DECIMAL_BYTES * sum(isinstance(part, Slot) for part in parts)
        self._texts = len(texts)

    def write(
        self, columns: Columns, rows: Rows, offsets: NDArray[np.int64], numbers: NDArray[np.float32]
    ) -> tuple[ByteColumn, ...]:
        """Each text of every row; void where a number is not finite, under 1e-10 or from 1e15.

        Args:
            columns: The events.
            rows: Those of them that are written.
            offsets: ``(records,) int64`` of the records that the columns came from.
            numbers: ``(rows, columns) float32``.
        """
        data, ends = emit_rows(
            self._operations, self._literals_at, self._row_bytes, columns.base, columns.words, columns.valid,
            columns.times, columns.positions, offsets, rows.events, numbers, rows.block, rows.ids,
        )  # fmt: skip
        texts = ByteColumn.cut(data, ends)
        return tuple(texts[place :: self._texts] for place in range(self._texts))

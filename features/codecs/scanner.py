"""The compiled scanner of JSON events: its tables of names, and what it learns."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.codecs.judge import LONGEST_RECORD, Tree, tree_of
from features.columns import Bytes, Int64s
from features.kernels import scan
from features.kernels.memory import address_of
from features.schema import Field

MOST_UNKNOWN_NAMES = 64
"""Unknown names of one object that the scanner learns to skip."""

_KINDS = {int: scan.INTEGER, float: scan.FLOAT, bool: scan.BOOLEAN, str: scan.TEXT}
_QUOTED = {int: scan.QUOTED_INTEGER, float: scan.QUOTED_FLOAT}
_HEAD = scan.NAME_WORDS // 8
_POWERS = address_of(scan.POWERS)


class Scanner:
    """Scans slices of one schema into columns.

    Unknown names are learned from the first row of slices number 1, 2, 4, 8 and so on: one that was not
    learned is skipped as well, only slower.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._required = np.array([not field.optional for field in fields], np.uint8)
        self._slices = 0
        rows = iter(range(len(fields), 2**31))  # of valid: the fields', then the inner nodes'
        self._root = _Node(tree_of(fields), {field.name: row for row, field in enumerate(fields)}, rows)
        self._valid_rows = next(rows)

    def scan(self, buffer: Bytes, rows: Sequence[bytes], words: Int64s) -> tuple[Bytes, list[int]]:
        """Fill the words; returns ``valid``, ``(fields, n) uint8``, and which rows are odd."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        self._slices += 1
        if rows and self._slices.bit_count() == 1:
            self._root.learn(rows[0])
        valid = np.zeros((self._valid_rows, len(rows)), np.uint8)
        odd: NDArray[np.uint8] = np.empty(len(rows), np.uint8)
        count = scan.scan_rows(
            buffer.ctypes.data, lengths, LONGEST_RECORD, self._root.address, _POWERS, words, valid,
            self._required, odd,
        )  # fmt: skip
        valid = valid if len(valid) == len(words) else valid[: len(words)]
        return valid, np.flatnonzero(odd).tolist() if count else []


class _Node:
    """An object or an array of the schema as the scanner's table.

    Args:
        tree: What it holds.
        columns: The row of each field.
        rows: Rows of ``valid`` for inner nodes.
    """

    def __init__(self, tree: Tree, columns: dict[str, int], rows: Iterator[int]) -> None:
        self._is_array = isinstance(next(iter(tree)), int)
        self._rows: dict[str | int, tuple[int, int, int]] = {}
        self._inner: dict[str | int, _Node] = {}
        self._words = np.zeros(6, np.int64)
        self.address: int = address_of(self._words)
        self.is_required = False
        for step, node in tree.items():
            if isinstance(node, Field):
                kind = (_QUOTED if node.quoted else _KINDS)[node.type]
                self._rows[step] = kind, columns[node.name], not node.optional
                self.is_required |= not node.optional
            else:
                inner = self._inner[step] = _Node(node, columns, rows)
                kind = scan.ARRAY if inner._is_array else scan.OBJECT
                self._rows[step] = kind, next(rows), inner.address
                self.is_required |= inner.is_required
        self._learned: set[str] = set()
        self._write()

    def learn(self, value: bytes | msgspec.Raw) -> None:
        """Put the unknown names into the tables: a known name costs less to skip."""
        found: dict[Any, msgspec.Raw]
        try:
            if self._is_array:
                found = dict(enumerate(msgspec.json.decode(value, type=list[msgspec.Raw])))
            else:
                found = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for step in self._inner.keys() & found.keys():
            self._inner[step].learn(found[step])
        room = MOST_UNKNOWN_NAMES - len(self._learned)
        if not self._is_array and room and (new := found.keys() - self._rows.keys() - self._learned):
            self._learned |= set(sorted(new)[:room])
            self._write()

    def _write(self) -> None:
        skipped = scan.SKIP, 0, 0
        if self._is_array:
            rows = [self._rows.get(place, skipped) for place in range(max(self._rows) + 1)]  # type: ignore[operator]
            quoted = [b""] * len(rows)
        else:
            rows = [*self._rows.values(), *[skipped] * len(self._learned)]
            quoted = [msgspec.json.encode(name) for name in (*self._rows, *sorted(self._learned))]
        width = max(-(-len(name) // 8) for name in quoted)
        table = np.zeros((len(rows), _HEAD + 2 * width), np.uint64)
        for row, ((kind, column, required), name) in enumerate(zip(rows, quoted, strict=True)):
            table[row, :_HEAD] = kind, len(name), column, required
            table[row, _HEAD::2] = np.frombuffer(name.ljust(8 * width, b"\0"), np.uint64)
            table[row, _HEAD + 1 :: 2] = np.frombuffer(
                (b"\xff" * len(name)).ljust(8 * width, b"\0"), np.uint64
            )
        follows = (np.arange(len(rows) + 1) + 1) % len(rows)
        follows[-1] = 0
        self._arrays = table, follows
        self._words[:] = (
            table.ctypes.data, table.strides[0], len(table), follows.ctypes.data, self._is_array, self.is_required,
        )  # fmt: skip

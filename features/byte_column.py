"""Byte strings as a column: an address and a length each, for compiled code; a sequence of ``bytes`` for the rest."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""Length of what is ``None``."""


class ByteColumn(Sequence[bytes | None]):
    """``n`` byte strings, some of them ``None``, that nobody changes.

    Args:
        table: ``(n, 2) int64``: address and length of each; the length of ``None`` is -1.
        owner: What keeps the memory.
    """

    __slots__ = ("_owner", "table")

    def __init__(self, table: NDArray[np.int64], owner: Any) -> None:
        self.table, self._owner = table, owner

    @classmethod
    def of(cls, items: Sequence[bytes | None]) -> "ByteColumn":
        """These items, copied into one buffer."""
        if isinstance(items, ByteColumn):
            return items
        some = [item or b"" for item in items] if None in items else items
        table = np.empty((len(some), 2), np.int64)
        table[:, 1] = np.fromiter(map(len, some), np.int64, len(some))  # type: ignore[arg-type]
        buffer = np.frombuffer(b"".join([*some, b"\0"]), np.uint8)  # type: ignore[list-item]
        np.cumsum(table[:-1, 1], out=table[1:, 0])
        table[:1, 0] = 0
        table[:, 0] += buffer.ctypes.data
        if some is not items:
            table[[i for i, item in enumerate(items) if item is None], 1] = NONE
        return cls(table, buffer)

    @classmethod
    def cut(cls, buffer: NDArray[np.uint8], ends: NDArray[np.int64]) -> "ByteColumn":
        """Items that stand one behind the other in a buffer, each up to its end."""
        table = np.empty((len(ends), 2), np.int64)
        table[:1, 0] = 0
        table[1:, 0] = ends[:-1]
        table[:, 1] = ends - table[:, 0]
        table[:, 0] += buffer.ctypes.data
        return cls(table, buffer)

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...
    @overload
    def __getitem__(self, place: slice) -> Self: ...
    def __getitem__(self, place: int | slice) -> bytes | Self | None:
        if isinstance(place, slice):
            return type(self)(np.ascontiguousarray(self.table[place]), self._owner)
        address, length = self.table[place].tolist()
        return None if length == NONE else ctypes.string_at(address, length)

    def __iter__(self) -> Iterator[bytes | None]:
        for address, length in self.table.tolist():
            yield None if length == NONE else ctypes.string_at(address, length)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ByteColumn({list(self)!r})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """``(n,) int64``; -1 is ``None``."""
        return self.table[:, 1]

    def take(self, places: NDArray[np.intp]) -> "ByteColumn":
        """These items alone, in this order."""
        return ByteColumn(self.table[places], self._owner)

    def replaced(self, items: Mapping[int, bytes]) -> "ByteColumn":
        """With other items at these places."""
        others = ByteColumn.of(list(items.values()))
        table = self.table.copy()
        table[list(items)] = others.table
        return ByteColumn(table, (self._owner, others))

"""What a slice leaves behind for one topic, as columns."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from features.byte_column import ByteColumn
from features.errors import Misdeclared

Headers = Sequence[tuple[str, bytes | None]] | None


@dataclass(frozen=True, slots=True)
class HeaderColumns(Sequence[Headers]):
    """The headers of ``n`` records.

    Args:
        names: ``(headers,) int64`` address of each header's name, which ends with a zero byte.
        values: Each header's value.
        bounds: ``(n + 1,) int64``: those of record ``i`` are ``bounds[i]`` to ``bounds[i + 1]``.
        owner: What keeps the names' memory.
    """

    names: NDArray[np.int64]
    values: ByteColumn
    bounds: NDArray[np.int64]
    owner: object

    @classmethod
    def of(cls, headers: Sequence[Headers]) -> "HeaderColumns":
        """These headers, copied."""
        flat = list(chain.from_iterable(each or () for each in headers))
        owner = [ctypes.create_string_buffer(name.encode()) for name, _ in flat]
        return cls(
            names=np.array([ctypes.addressof(name) for name in owner], np.int64),
            values=ByteColumn.of([value for _, value in flat]),
            bounds=np.array([0, *accumulate(len(each or ()) for each in headers)], np.int64),
            owner=owner,
        )

    @classmethod
    def one(cls, name: str, values: ByteColumn) -> "HeaderColumns":
        """The same header for every record, each with its value."""
        owner = ctypes.create_string_buffer(name.encode())
        names = np.full(len(values), ctypes.addressof(owner))
        return cls(names=names, values=values, bounds=np.arange(len(values) + 1), owner=owner)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, place: int) -> Headers: ...
    @overload
    def __getitem__(self, place: slice) -> Self: ...
    def __getitem__(self, place: int | slice) -> "Headers | HeaderColumns":
        if isinstance(place, slice):
            return HeaderColumns.of([self[i] for i in range(*place.indices(len(self)))])
        first, last = self.bounds[range(len(self))[place] :][:2].tolist()
        return [
            (ctypes.string_at(int(self.names[i])).decode(), self.values[i]) for i in range(first, last)
        ] or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBatch:
    """Records for one topic, in order; made durable together with the offsets of the slice they come from.

    The columns are sequences of equal length. `ByteColumn` and `HeaderColumns` are handed over as they are; any
    other sequence is copied into one first.

    Attributes:
        topic: Where to.
        values: The records' values; None is a tombstone.
        keys: Their keys; None when no record has one.
        headers: Their headers; None when no record has any.
        partition: The partition of all of them; -1 places each by the murmur2 hash of its key, as Java does.
    """

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Headers] | None = None
    partition: int = -1

    def __post_init__(self) -> None:
        for name, column in (("keys", self.keys), ("headers", self.headers)):
            if column is not None and len(column) != len(self.values):
                raise Misdeclared(
                    f"OutputBatch for {self.topic}: {len(self.values)} values but {len(column)} {name}; "
                    "give each column one item a record"
                )

    def __len__(self) -> int:
        return len(self.values)

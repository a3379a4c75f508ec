"""Columns: a slice's well-formed events as typed arrays."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from features.kernels.take import take_events
from features.schema import Schema

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """``n`` events of one partition in log order, column by column.

    Args:
        schema: What the columns mean; row ``i`` of ``words`` and ``valid`` is its ``i``-th field.
        buffer: ``(bytes,) uint8`` that texts refer to, with readable padding behind the last one.
        words: ``(fields, n) int64``: integers, booleans as 0 and 1, floats as their bits, texts as
            ``offset << 24 | length`` into ``buffer``. Undefined where not valid.
        valid: ``(fields, n) uint8``: 1 where the value is there.
        times: ``(n,) int64`` event times, ms since the epoch.
        positions: ``(n,) int64`` index of each event in the slice that it came from.
    """

    schema: Schema
    buffer: Bytes
    words: Int64s
    valid: Bytes
    times: Int64s
    positions: Int64s
    base: int = field(init=False, repr=False)
    """Address of the buffer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", self.buffer.ctypes.data)

    def __len__(self) -> int:
        return len(self.times)

    def word(self, name: str) -> Int64s:
        """``(n,) int64`` of one field."""
        return self.words[self.schema.place(name)]

    def number(self, name: str) -> Float64s:
        """``(n,) float64`` of one float field."""
        return self.words[self.schema.place(name)].view(np.float64)

    def is_valid(self, name: str) -> Bytes:
        """``(n,) uint8`` of one field."""
        return self.valid[self.schema.place(name)]

    def take(self, chosen: Int64s) -> "Columns":
        """These events alone, by their indices."""
        words = np.empty((len(self.words), len(chosen)), np.int64)
        valid = np.empty(words.shape, np.uint8)
        take_events(self.words, self.valid, chosen, words, valid)
        return Columns(
            schema=self.schema,
            buffer=self.buffer,
            words=words,
            valid=valid,
            times=self.times[chosen],
            positions=self.positions[chosen],
        )

    def texts(self, name: str) -> list[str | None]:
        """One text field as Python strings; for people, not for the hot path."""
        data = self.buffer.tobytes()
        refs, valid = self.word(name).tolist(), self.is_valid(name).tolist()
        return [
            data[ref >> 24 : (ref >> 24) + (ref & 0xFFFFFF)].decode() if there else None
            for ref, there in zip(refs, valid, strict=True)
        ]

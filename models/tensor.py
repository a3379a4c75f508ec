"""Tensors: the named arrays that a model takes and gives, and how rows come to lie in memory."""

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

ROWS = "rows"
"""The first dimension of every tensor: one item a row."""

ALIGNMENT = 64
"""Bytes: a runtime's vector code may sum a row in another order if the tensor starts elsewhere."""

Array = NDArray[Any]


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """A named array.

    Args:
        name: As the model file calls it.
        dtype: NumPy's name, such as ``float32``; what is no tensor keeps its runtime's name.
        shape: A size, or the name of a size that may vary; `ROWS` first.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    @property
    def text(self) -> str:
        """As messages show it: ``float32[rows, 38]``."""
        return f"{self.dtype}[{', '.join('?' if size is None else str(size) for size in self.shape)}]"

    def disagrees(self, other: "Tensor") -> bool:
        """Whether no array could be both; a size that may vary agrees with every size."""
        return (
            self.dtype != other.dtype
            or len(self.shape) != len(other.shape)
            or any(
                isinstance(mine, int) and isinstance(theirs, int) and mine != theirs
                for mine, theirs in zip(self.shape, other.shape, strict=True)
            )
        )


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that is not written yet, C-contiguous at an aligned address."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)

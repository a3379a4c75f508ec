"""Digests of rows: equal digests mean equal bits."""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.hashing import xxh64
from features.kernels.memory import set_i64


@numba.njit(**COMPILE)
def row_digest(block, ids, row, at):
    """XXH64 of (XXH64 of the row's floats, XXH64 of its ids); writes over 16 bytes at ``at``."""
    set_i64(at, np.int64(xxh64(block.ctypes.data + row * block.shape[1] * 4, block.shape[1] * 4)))
    set_i64(at + 8, np.int64(xxh64(ids.ctypes.data + row * ids.shape[1] * 8, ids.shape[1] * 8)))
    return xxh64(at, 16)


@numba.njit("void(f4[:,::1], i8[:,::1], u8[::1])", **COMPILE)
def digest_rows(block, ids, digests):
    """``(r,) uint64`` of ``(r, floats) float32`` and ``(r, categories) int64``."""
    pair = np.empty(2, np.int64)
    for row in range(digests.size):
        digests[row] = row_digest(block, ids, row, pair.ctypes.data)

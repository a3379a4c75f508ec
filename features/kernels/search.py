"""Search over sorted pairs."""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE

_SIGN = types.uint64(2**63)


@numba.njit(inline="always", **COMPILE)
def _bucket(key, shift):
    """By its highest bits; grows with the key."""
    return types.int64((types.uint64(key) ^ _SIGN) >> shift)


@numba.njit("void(i8[::1], i8[::1], i8[::1], i8[::1], b1, i8[::1])", **COMPILE)
def search_pairs(keys, times, wanted_keys, wanted_times, right, found):
    """Where pairs belong among sorted ones, before or behind equal ones, as ``numpy.searchsorted`` has it.

    First numbers are hashes: their highest bits say nearly where, and what is left is found by halves.

    Args:
        keys: ``(n,) int64`` first numbers of the sorted pairs.
        times: ``(n,) int64`` second ones.
        wanted_keys: ``(m,) int64`` first numbers of the wanted pairs.
        wanted_times: ``(m,) int64`` second ones.
        right: Whether behind equal ones.
        found: ``(m,) int64``, written.
    """
    bits = 1
    while (1 << bits) < keys.size:
        bits += 1
    shift = types.uint64(64 - bits)
    starts = np.zeros((1 << bits) + 1, np.int64)
    for key in keys:
        starts[_bucket(key, shift) + 1] += 1
    for bucket in range(1, starts.size):
        starts[bucket] += starts[bucket - 1]
    for i in range(found.size):
        key, time = wanted_keys[i], wanted_times[i]
        bucket = _bucket(key, shift)
        low, high = starts[bucket], starts[bucket + 1]
        while low < high:
            middle = (low + high) >> 1
            is_before = keys[middle] < key or (
                keys[middle] == key and (times[middle] < time or (right and times[middle] == time))
            )
            if is_before:
                low = middle + 1
            else:
                high = middle
        found[i] = low

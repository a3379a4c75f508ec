"""Binary search over pairs."""

import numba

from features.kernels import COMPILE


@numba.njit("void(i8[::1], i8[::1], i8[::1], i8[::1], b1, i8[::1])", **COMPILE)
def search_pairs(keys, times, wanted_keys, wanted_times, right, found):
    """Where pairs belong among sorted ones, before or behind equal ones, as ``numpy.searchsorted`` has it.

    Args:
        keys: ``(n,) int64`` first numbers of the sorted pairs.
        times: ``(n,) int64`` second ones.
        wanted_keys: ``(m,) int64`` first numbers of the wanted pairs.
        wanted_times: ``(m,) int64`` second ones.
        right: Whether behind equal ones.
        found: ``(m,) int64``, written.
    """
    for i in range(found.size):
        low, high, key, time = 0, keys.size, wanted_keys[i], wanted_times[i]
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

"""What the records of a slice have to fulfil beyond their schema: a usable event time, and their own Kafka key."""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.slots import same_bytes
from features.kernels.texts import is_decimal
from features.kernels.times import EARLIEST, LATEST, parse

I = types.int64
TEXT, FLOAT, SECONDS, PARTS = range(4)
"""What stands in a time field: ISO 8601, a float, whole seconds, or whole parts of a millisecond."""

AHEAD, OTHER_KEY = 1, 2
"""Faults of a record."""


@numba.njit("i8(i8, f8, i8, i8, i8[::1], u1[::1], i8[::1])", **COMPILE)
def read_times(sort, factor, parts, base, words, valid, times):
    """Event times in ms since the epoch; returns how many can't be used: they lie outside `EARLIEST` to `LATEST`.

    Args:
        sort: One of the constants above.
        factor: Milliseconds of a float's unit.
        parts: Of a millisecond that a whole number counts; rounded down.
        base: Address that texts refer to.
        words: ``(n,) int64`` the field, as columns hold it.
        valid: ``(n,) uint8``.
        times: ``(n,) int64``, written.
    """
    floats, unusable = words.view(np.float64), 0
    for i in range(words.size):
        time, word = I(LATEST + 1), words[i]
        if not valid[i]:
            pass
        elif sort == TEXT:
            time = parse(base + (word >> 24), word & 0xFFFFFF)
        elif sort == FLOAT:
            millis = np.rint(floats[i] * factor)
            if EARLIEST <= millis <= LATEST:
                time = I(millis)
        elif sort == PARTS:
            time = word // parts
        elif EARLIEST // 1000 <= word <= LATEST // 1000:
            time = word * 1000
        times[i] = time
        unusable += time < EARLIEST or time > LATEST
    return unusable


_WORDS, _BYTES = types.int64[::1], types.uint8[::1]
_TIMESTAMPS = types.Array(types.int64, 1, "A", readonly=True)  # as they come from outside
_SIGNATURE = types.int64(
    _WORDS, _TIMESTAMPS, types.int64, types.boolean, types.int64, _WORDS, _BYTES, types.int64[:, ::1], _BYTES
)


@numba.njit(_SIGNATURE, **COMPILE)
def find_faults(times, timestamps, most_ahead, is_text, base, words, valid, keys, faults):
    """What is wrong with each record; returns how many are at fault.

    Args:
        times: ``(n,) int64`` event times, ms.
        timestamps: ``(n,) int64`` Kafka timestamps, ms, negative for none.
        most_ahead: How far a time may lie past the timestamp, ms.
        is_text: Whether the key field is a text, else an integer.
        base: Address that texts refer to.
        words: ``(n,) int64`` the key field.
        valid: ``(n,) uint8`` where it is there; missing is the same as a null Kafka key.
        keys: ``(n, 2) int64`` address and length of the Kafka keys; length -1 is null.
        faults: ``(n,) uint8``, written: 0, or `AHEAD` and `OTHER_KEY` added.
    """
    count = 0
    for i in range(times.size):
        fault = AHEAD if timestamps[i] >= 0 and times[i] - timestamps[i] > most_ahead else 0
        if not valid[i] or keys[i, 1] < 0:
            is_same = not valid[i] and keys[i, 1] < 0
        elif is_text:
            length = words[i] & 0xFFFFFF
            is_same = length == keys[i, 1] and same_bytes(base + (words[i] >> 24), keys[i, 0], length)
        else:
            is_same = is_decimal(words[i], keys[i, 0], keys[i, 1])
        if not is_same:
            fault |= OTHER_KEY
        faults[i] = fault
        count += fault != 0
    return count

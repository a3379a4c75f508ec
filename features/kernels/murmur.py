"""MurmurHash2 of 32 bits as Kafka's default partitioner has it (``org.apache.kafka.common.utils.Utils.murmur2``)."""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.memory import get_byte, peek_u32

W = types.uint32

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995


@numba.njit(**COMPILE)
def murmur2(address, length):
    """The hash of ``length`` bytes at ``address``; ``uint32``."""
    state = W(W(_SEED) ^ W(length))
    for at in range(address, address + length - 3, 4):
        word = W(peek_u32(at) * W(_FACTOR))
        word = W(W(word ^ (word >> W(24))) * W(_FACTOR))
        state = W(W(state * W(_FACTOR)) ^ word)
    end, rest = address + length, length & 3
    if rest == 3:
        state = W(state ^ (W(get_byte(end - 1)) << W(16)))
    if rest >= 2:
        state = W(state ^ (W(get_byte(end - rest + 1)) << W(8)))
    if rest >= 1:
        state = W(W(state ^ W(get_byte(end - rest))) * W(_FACTOR))
    state = W(W(state ^ (state >> W(13))) * W(_FACTOR))
    return W(state ^ (state >> W(15)))


_ENDS = types.Array(types.int32, 1, "C", readonly=True)  # as Arrow hands them over


@numba.njit(types.void(types.int64, _ENDS, types.int64, types.int32[::1]), **COMPILE)
def place_keys(base, ends, partitions, places):
    """The partition of each key: texts one behind the other, ``ends`` has one more than there are keys."""
    for i in range(places.size):
        key = murmur2(base + ends[i], types.int64(ends[i + 1]) - ends[i])
        places[i] = types.int64(key & W(0x7FFFFFFF)) % partitions

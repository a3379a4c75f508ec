"""XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md) over bytes at an address.

One hash serves keys, category ids and row digests; its values are part of the state format.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.memory import address_of, get_byte, peek_u32, peek_u64

U = types.uint64

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_MINUS_P1 = np.uint64(2**64 - 0x9E3779B185EBCA87)


@numba.njit(inline="always", **COMPILE)
def _rotate(word, bits):
    return (word << U(bits)) | (word >> U(64 - bits))


@numba.njit(inline="always", **COMPILE)
def _round(lane, word):
    return _rotate(lane + word * _P2, 31) * _P1


@numba.njit(inline="always", **COMPILE)
def _merge(state, lane):
    return (state ^ _round(U(0), lane)) * _P1 + _P4


@numba.njit(**COMPILE)
def _stripes(address, length):
    a, b, c, d = _P1 + _P2, _P2, U(0), _MINUS_P1
    end = address + length - 32
    while address <= end:
        a = _round(a, peek_u64(address))
        b = _round(b, peek_u64(address + 8))
        c = _round(c, peek_u64(address + 16))
        d = _round(d, peek_u64(address + 24))
        address += 32
    state = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
    return _merge(_merge(_merge(_merge(state, a), b), c), d)


@numba.njit(**COMPILE)
def xxh64(address, length):
    """XXH64 with seed 0 of ``length`` bytes at ``address``; ``uint64``."""
    state = _stripes(address, length) if length >= 32 else _P5
    state += U(length)
    end = address + length
    address = end - (length & 31)
    while address + 8 <= end:
        state = _rotate(state ^ _round(U(0), peek_u64(address)), 27) * _P1 + _P4
        address += 8
    if address + 4 <= end:
        state = _rotate(state ^ (U(peek_u32(address)) * _P1), 23) * _P2 + _P3
        address += 4
    while address < end:
        state = _rotate(state ^ (U(get_byte(address)) * _P5), 11) * _P1
        address += 1
    state = (state ^ (state >> U(33))) * _P2
    state = (state ^ (state >> U(29))) * _P3
    return state ^ (state >> U(32))


def xxh64_of(data: bytes) -> int:
    """XXH64 with seed 0 of ``data``, as an unsigned integer."""
    buffer = np.frombuffer(data or b"\0", np.uint8)
    return int(xxh64(address_of(buffer), len(data)))

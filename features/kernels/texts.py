"""Texts as references (``offset << 24 | length``) into a slice's buffer: hashes, keys, comparisons."""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.memory import get_byte, peek_u64, poke_u64, set_byte


@numba.njit(**COMPILE)
def joined_bytes(words, valid, parts, is_text):
    """Bytes that `join_keys` writes at most."""
    size = 0
    for part in range(parts.size):
        size += 8 * words.shape[1]
        if is_text[part]:
            for i in range(words.shape[1]):
                if valid[parts[part], i]:
                    size += words[parts[part], i] & 0xFFFFFF
    return size


@numba.njit(**COMPILE)
def join_keys(base, words, valid, parts, is_text, target, refs):
    """Write each row's parts, every text with its length first, as one key.

    ``words`` and ``valid`` are a slice's columns, ``parts`` their rows that make up the key. A row with a
    missing part has a null key, -1.
    """
    used = 0
    for i in range(words.shape[1]):
        start = used
        for part in range(parts.size):
            if not valid[parts[part], i]:
                used = -1
                break
            word = words[parts[part], i]
            if is_text[part]:
                source, length = base + (word >> 24), word & 0xFFFFFF
                poke_u64(target + used, types.uint64(length))
                used += 8
                for at in range(length):
                    set_byte(target + used + at, get_byte(source + at))
                used += length
            else:
                poke_u64(target + used, types.uint64(word))
                used += 8
        if used < 0:
            refs[i], used = -1, start
        else:
            refs[i] = (start << 24) | (used - start)


@numba.njit(inline="always", **COMPILE)
def is_decimal(number, at, length):
    """Whether the text is the integer's canonical decimal."""
    negative, used = number < 0, 0
    while True:
        digit = number % 10
        if negative and digit > 0:
            digit = 10 - digit
        if used == length or types.int64(get_byte(at + length - 1 - used)) != 48 + digit:
            return False
        used += 1
        number = (number + digit) // 10 if negative else number // 10
        if number == 0:
            break
    if negative:
        return used + 1 == length and get_byte(at) == 45
    return used == length


@numba.njit("void(i8, i8[::1], i8)", **COMPILE)
def copy_texts(base, refs, target):
    """The texts one behind the other."""
    for i in range(refs.size):
        source, length, at = base + (refs[i] >> 24), refs[i] & 0xFFFFFF, 0
        while at + 8 <= length:
            poke_u64(target + at, peek_u64(source + at))
            at += 8
        while at < length:
            set_byte(target + at, get_byte(source + at))
            at += 1
        target += length

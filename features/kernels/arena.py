"""Blocks of words for rings, keys and table segments, in one array of ``int64`` words.

A block of up to 64 words comes in its exact size, a larger one in the next power of two; a released
block waits in the free list of its size. Offsets count words and are relative to the arena, so the
used prefix of the array *is* its snapshot; offset 0 is never given out and means "none".
"""

import numba

from features.kernels import COMPILE
from features.kernels.memory import get_i64, set_i64

SMALL = 64
LARGEST = 1 + SMALL + 40
"""Where the ``free`` array keeps the words of the largest block that holds one key's values."""
FREE_LISTS = LARGEST + 1
"""Length of the ``free`` array: ``free[0]`` is the first word never used, then a list head per size, then `LARGEST`."""


@numba.njit(**COMPILE)
def _size_class(words):
    if words <= SMALL:
        return words
    power = 7
    while (1 << power) < words:
        power += 1
    return SMALL + power - 6


@numba.njit(**COMPILE)
def block_words(words):
    """Words that a block for ``words`` words really takes."""
    size_class = _size_class(words)
    return words if size_class <= SMALL else 1 << (size_class - SMALL + 6)


@numba.njit(**COMPILE)
def allocate(arena, free, words):
    """Offset of a block of at least ``words`` words, not cleared; the caller made sure of the room."""
    head = free + 8 * _size_class(words)
    block = get_i64(head)
    if block != 0:
        set_i64(head, get_i64(arena + 8 * block))
        return block
    block = get_i64(free)
    set_i64(free, block + block_words(words))
    return block


@numba.njit(**COMPILE)
def allocate_cleared(arena, free, words):
    """A block for one key's values, every word 0: what is equal is saved as equal words."""
    block = allocate(arena, free, words)
    for word in range(block, block + words):
        set_i64(arena + 8 * word, 0)
    set_i64(free + 8 * LARGEST, max(get_i64(free + 8 * LARGEST), words))
    return block


@numba.njit(**COMPILE)
def release(arena, free, block, words):
    """Give a block back; ``words`` as it was allocated."""
    head = free + 8 * _size_class(words)
    set_i64(arena + 8 * block, get_i64(head))
    set_i64(head, block)

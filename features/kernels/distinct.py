"""How many different values a window holds: exact as long as a block has room for them, then from a sample.

A cell is ``block | entries``. A block in the arena starts with ``words | first, last | counted, level``; then come
its entries, three words each::

    value's hash | newest tile it was seen in (start, ms) | entry before, entry after

A chain leads through them from the oldest tile to the newest, so what leaves the window is taken from its head: no
entry is looked at that stays, and every count is one of integers. Blocks of more than `SMALL` entries have an
open-addressing index behind them, two places of 32 bits an entry.

A full largest block is thinned (Gibbons, *Distinct Sampling for Highly-Accurate Answers to Distinct Values Queries*,
VLDB 2001): values whose hash has fewer than ``level`` trailing zeros leave, those that stay stand for ``2**level``
each. ``thinned[level]`` is the newest tile for which this has been done; later tiles keep everything again.
"""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import LARGEST, allocate, release
from features.kernels.memory import get_i64, peek_u32, poke_u32, set_i64

I, U = types.int64, types.uint64

_WORDS, _ENDS, _COUNTED, _ENTRIES = 0, 8, 16, 24
_ENTRY = 24
_HASH, _TILE, _LINKS = 0, 8, 16
_NONE = 0xFFFFFFFF
_LOW = 0xFFFFFFFF

SMALL = 16
"""Most entries of a block without an index."""
LARGEST_BLOCK = 1 << 17
EXACT = LARGEST_BLOCK // 4 - 9
"""Values that a cell holds before it is thinned."""
_LEVELS = 24
_NEVER = -(2**63)


@numba.njit(inline="always", **COMPILE)
def _hash_of(word):
    """A bijection of 64-bit words (the finaliser of SplitMix64): different values, different hashes."""
    x = U(word)
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return I(x ^ (x >> U(31)))


@numba.njit(inline="always", **COMPILE)
def _level_of(hashed):
    level = 0
    while level < _LEVELS - 1 and (hashed >> level) & 1 == 0:
        level += 1
    return level


@numba.njit(inline="always", **COMPILE)
def _room(words):
    """Entries that a block of so many words has room for."""
    if words <= 3 + 3 * SMALL:
        return (words - 3) // 3
    return words // 4 - 9


@numba.njit(inline="always", **COMPILE)
def _larger(words):
    """The next size: 4, 8 and 16 entries, then powers of two, a quarter of which is the index."""
    if words == 0:
        return 3 + 3 * 4
    if words < 3 + 3 * SMALL:
        return 3 + 2 * (words - 3)
    return 256 if words < 256 else 2 * words


@numba.njit(inline="always", **COMPILE)
def _entry(block, i):
    return block + _ENTRIES + i * _ENTRY


@numba.njit(inline="always", **COMPILE)
def _before(entry):
    return get_i64(entry + _LINKS) & _LOW


@numba.njit(inline="always", **COMPILE)
def _after(entry):
    return (get_i64(entry + _LINKS) >> 32) & _LOW


@numba.njit(inline="always", **COMPILE)
def _set_before(entry, i):
    set_i64(entry + _LINKS, (get_i64(entry + _LINKS) & ~_LOW) | i)


@numba.njit(inline="always", **COMPILE)
def _set_after(entry, i):
    set_i64(entry + _LINKS, (get_i64(entry + _LINKS) & _LOW) | (i << 32))


@numba.njit(inline="always", **COMPILE)
def _thinned(block, level):
    """Where the newest tile of a level stands, in a largest block."""
    return block + 8 * (LARGEST_BLOCK - LARGEST_BLOCK // 4 - _LEVELS) + 8 * level


@numba.njit(inline="always", **COMPILE)
def _level_at(block, tile):
    """Up to which level the tile has been thinned, or any later one."""
    if get_i64(block + _WORDS) < LARGEST_BLOCK:
        return 0
    level = 0
    while level + 1 < _LEVELS and get_i64(_thinned(block, level + 1)) >= tile:
        level += 1
    return level


@numba.njit(inline="always", **COMPILE)
def _index(block):
    """Address and mask of the index; its places hold an entry's number and 1, or 0."""
    words = get_i64(block + _WORDS)
    return block + 8 * (words - words // 4), words // 2 - 1


@numba.njit(inline="always", **COMPILE)
def _has_index(block):
    return get_i64(block + _WORDS) > 3 + 3 * SMALL


@numba.njit(**COMPILE)
def _find(block, entries, hashed):
    """Number of the entry, or -1."""
    if not _has_index(block):
        for i in range(entries):
            if get_i64(_entry(block, i) + _HASH) == hashed:
                return i
        return -1
    index, mask = _index(block)
    place = (hashed >> 20) & mask
    while True:
        i = I(peek_u32(index + 4 * place)) - 1
        if i < 0 or get_i64(_entry(block, i) + _HASH) == hashed:
            return i
        place = (place + 1) & mask


@numba.njit(**COMPILE)
def _place_of(block, i):
    """Where in the index the entry stands."""
    index, mask = _index(block)
    place = (get_i64(_entry(block, i) + _HASH) >> 20) & mask
    while I(peek_u32(index + 4 * place)) - 1 != i:
        place = (place + 1) & mask
    return place


@numba.njit(**COMPILE)
def _put(block, i):
    index, mask = _index(block)
    place = (get_i64(_entry(block, i) + _HASH) >> 20) & mask
    while peek_u32(index + 4 * place) != 0:
        place = (place + 1) & mask
    poke_u32(index + 4 * place, i + 1)


@numba.njit(**COMPILE)
def _take(block, i):
    """Out of the index; what stood behind it moves up (Knuth, *The Art of Computer Programming* 3, algorithm 6.4 R)."""
    index, mask = _index(block)
    hole = _place_of(block, i)
    place = hole
    while True:
        place = (place + 1) & mask
        j = I(peek_u32(index + 4 * place)) - 1
        if j < 0:
            break
        home = (get_i64(_entry(block, j) + _HASH) >> 20) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            poke_u32(index + 4 * hole, j + 1)
            hole = place
    poke_u32(index + 4 * hole, 0)


@numba.njit(**COMPILE)
def _unlink(block, i):
    entry = _entry(block, i)
    before, after = _before(entry), _after(entry)
    ends = get_i64(block + _ENDS)
    first, last = ends & _LOW, (ends >> 32) & _LOW
    if before == _NONE:
        first = after
    else:
        _set_after(_entry(block, before), after)
    if after == _NONE:
        last = before
    else:
        _set_before(_entry(block, after), before)
    set_i64(block + _ENDS, first | (last << 32))


@numba.njit(**COMPILE)
def _link(block, i):
    """Into the chain behind every entry that is no newer."""
    entry = _entry(block, i)
    ends = get_i64(block + _ENDS)
    first, last = ends & _LOW, (ends >> 32) & _LOW
    before, after = last, _NONE
    while before != _NONE and get_i64(_entry(block, before) + _TILE) > get_i64(entry + _TILE):
        after = before
        before = _before(_entry(block, before))
    set_i64(entry + _LINKS, before | (after << 32))
    if before == _NONE:
        first = i
    else:
        _set_after(_entry(block, before), i)
    if after == _NONE:
        last = i
    else:
        _set_before(_entry(block, after), i)
    set_i64(block + _ENDS, first | (last << 32))


@numba.njit(inline="always", **COMPILE)
def _note(block, hashed, more):
    """Keep the number of those that count at the level that was last read."""
    counted = get_i64(block + _COUNTED)
    if _level_of(hashed) >= (counted & 63):
        set_i64(block + _COUNTED, counted + (more << 6))


@numba.njit(**COMPILE)
def _remove(block, cell, i):
    """The last entry takes its number."""
    entries = get_i64(cell + 8) - 1
    _note(block, get_i64(_entry(block, i) + _HASH), -1)
    _unlink(block, i)
    if _has_index(block):
        _take(block, i)
    if i != entries:
        moved, source = _entry(block, i), _entry(block, entries)
        if _has_index(block):
            index, _ = _index(block)
            poke_u32(index + 4 * _place_of(block, entries), i + 1)
        for word in range(3):
            set_i64(moved + 8 * word, get_i64(source + 8 * word))
        ends = get_i64(block + _ENDS)
        first, last = ends & _LOW, (ends >> 32) & _LOW
        if _before(moved) == _NONE:
            first = i
        else:
            _set_after(_entry(block, _before(moved)), i)
        if _after(moved) == _NONE:
            last = i
        else:
            _set_before(_entry(block, _after(moved)), i)
        set_i64(block + _ENDS, first | (last << 32))
    set_i64(cell + 8, entries)


@numba.njit(**COMPILE)
def _with_room(arena, free, cell):
    """The cell's block, with room for one entry more unless it is the largest and full."""
    offset, entries = get_i64(cell), get_i64(cell + 8)
    words = get_i64(arena + 8 * offset + _WORDS) if offset != 0 else 0
    if words == LARGEST_BLOCK or (words != 0 and entries < _room(words)):
        return arena + 8 * offset
    larger = _larger(words)
    moved = allocate(arena, free, larger)
    set_i64(free + 8 * LARGEST, max(get_i64(free + 8 * LARGEST), larger))
    block, old = arena + 8 * moved, arena + 8 * offset
    for word in range(3 + 3 * entries):
        set_i64(block + 8 * word, get_i64(old + 8 * word) if words != 0 else 0)
    set_i64(block + _WORDS, larger)
    if words == 0:
        set_i64(block + _ENDS, _NONE | (_NONE << 32))
    else:
        release(arena, free, offset, words)
    if _has_index(block):
        index, mask = _index(block)
        for place in range((mask + 1) // 2):
            set_i64(index + 8 * place, 0)
        for i in range(entries):
            _put(block, i)
    if larger == LARGEST_BLOCK:
        for level in range(_LEVELS):
            set_i64(_thinned(block, level), _NEVER)
    set_i64(cell, moved)
    return block


@numba.njit(**COMPILE)
def _thin(block, cell, tile):
    """Drop about half of a full block's values; ``tile`` is the newest there is."""
    newest = max(tile, get_i64(_entry(block, (get_i64(block + _ENDS) >> 32) & _LOW) + _TILE))
    level = min(_level_at(block, newest) + 1, _LEVELS - 1)
    set_i64(_thinned(block, level), newest)
    i = get_i64(cell + 8) - 1
    while i >= 0:
        if _level_of(get_i64(_entry(block, i) + _HASH)) < level:
            _remove(block, cell, i)
        i -= 1


@numba.njit(**COMPILE)
def drop_older_than(arena, cell, oldest):
    """Forget what the window has left."""
    block = arena + 8 * get_i64(cell)
    while get_i64(cell + 8) > 0:
        first = get_i64(block + _ENDS) & _LOW
        if get_i64(_entry(block, first) + _TILE) >= oldest:
            return
        _remove(block, cell, first)


@numba.njit(**COMPILE)
def add_distinct(arena, free, cell, tile, word):
    """``word`` was seen in the tile that starts at ``tile``."""
    hashed = _hash_of(word)
    block = arena + 8 * get_i64(cell)
    i = _find(block, get_i64(cell + 8), hashed) if get_i64(cell) != 0 else -1
    if i >= 0:
        entry = _entry(block, i)
        if tile > get_i64(entry + _TILE) and _level_of(hashed) >= _level_at(block, tile):
            _unlink(block, i)
            set_i64(entry + _TILE, tile)
            _link(block, i)
        return
    block = _with_room(arena, free, cell)
    while get_i64(cell + 8) >= EXACT:
        _thin(block, cell, tile)
    if _level_of(hashed) < _level_at(block, tile):
        return
    i = get_i64(cell + 8)
    entry = _entry(block, i)
    set_i64(entry + _HASH, hashed)
    set_i64(entry + _TILE, tile)
    _link(block, i)
    if _has_index(block):
        _put(block, i)
    set_i64(cell + 8, i + 1)
    _note(block, hashed, 1)


@numba.njit(**COMPILE)
def _count_at(block, level, oldest):
    """Entries that count, found by walking the chain."""
    counted, at = 0, (get_i64(block + _ENDS) >> 32) & _LOW
    while at != _NONE:
        entry = _entry(block, at)
        if get_i64(entry + _TILE) < oldest:
            break
        counted += _level_of(get_i64(entry + _HASH)) >= level
        at = _before(entry)
    return counted


@numba.njit(**COMPILE)
def read_distinct(arena, cell, oldest, is_late):
    """Number of different values in tiles from ``oldest`` on, as a ``float64``; a late event changes nothing."""
    if get_i64(cell) == 0:
        return 0.0
    block = arena + 8 * get_i64(cell)
    level = _level_at(block, oldest)
    if is_late:
        return float(_count_at(block, level, oldest) << level)
    drop_older_than(arena, cell, oldest)
    if (get_i64(block + _COUNTED) & 63) != level:
        set_i64(block + _COUNTED, level | (_count_at(block, level, oldest) << 6))
    return float((get_i64(block + _COUNTED) >> 6) << level)


@numba.njit(**COMPILE)
def clear_distinct(arena, free, cell):
    """Forget everything."""
    if get_i64(cell) != 0:
        release(arena, free, get_i64(cell), get_i64(arena + 8 * get_i64(cell) + _WORDS))
    set_i64(cell, 0)
    set_i64(cell + 8, 0)

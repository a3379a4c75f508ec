"""How many different values a window holds: exact as long as a block has room for them, then from a sample.

A cell is ``block | entries``. An entry is ``value's hash | number of the newest tile it was seen in``. A block in the
arena starts with ``words, limit, queue's length | queue's head, its tiles, counted, level | oldest tile``.

Up to `SMALL` entries follow as they came; those that the window has left are looked for once a tile. A larger block has
a *queue* behind its head and a table behind that. The queue holds ``tile | how many count whose newest it is`` in one
word (48, 16 bits), oldest first: what leaves the window is taken from its head, and what counts is one integer. The
table has open addressing; an entry whose tile is below the oldest is dead and its place is free for another value. When
`limit` places have been taken, the table is laid out anew without the dead, in a larger block if too many live.

A full largest block is thinned (Gibbons, *Distinct Sampling for Highly-Accurate Answers to Distinct Values Queries*,
VLDB 2001): values whose hash has fewer than ``level`` trailing zeros leave, those that stay stand for ``2**level``
each. ``thinned[level]`` is the newest tile for which this has been done; later tiles keep everything again.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import allocate_cleared, release
from features.kernels.memory import get_i64, move_words, prefetch, set_i64

I, U = types.int64, types.uint64

_SHAPE, _STATE, _OLDEST, _BODY = 0, 8, 16, 24
_HEADER = 3
_TILE = 8
_F16 = 0xFFFF
_LOW = 0xFFFFFFFF

SMALL = 30
"""Most entries of a block without a table."""
_SMALL_WORDS = _HEADER + 2 * SMALL
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
def _words(block):
    return get_i64(block + _SHAPE) & _LOW


@numba.njit(inline="always", **COMPILE)
def _limit(block):
    return (get_i64(block + _SHAPE) >> 32) & _F16


@numba.njit(inline="always", **COMPILE)
def _queue(block):
    """Words of the queue."""
    return (get_i64(block + _SHAPE) >> 48) & _F16


@numba.njit(inline="always", **COMPILE)
def _room(words):
    """How many may live when a table is laid out."""
    return (words - _HEADER) // 2 if words <= _SMALL_WORDS else words // 4 - 9


@numba.njit(inline="always", **COMPILE)
def _larger(words):
    """The next size: 4, 8, 16 and 30 entries, then powers of two."""
    if words == 0:
        return _HEADER + 2 * 4
    if words < _HEADER + 2 * 16:
        return _HEADER + 2 * (words - _HEADER)
    if words < _SMALL_WORDS:
        return _SMALL_WORDS
    return 256 if words < 256 else 2 * words


@numba.njit(inline="always", **COMPILE)
def _places(words, queue):
    """Places of the table."""
    thinned = _LEVELS if words == LARGEST_BLOCK else 0
    return (words - _HEADER - queue - thinned) // 2


@numba.njit(inline="always", **COMPILE)
def _shape_of(words, tiles):
    """``words, limit, queue's length``: the queue has room for twice the tiles of the window, or all that may live.

    At least an eighth of its words are then free once tiles that nothing counts for are left out.
    """
    if words <= _SMALL_WORDS:
        return words
    queue = min(_room(words) + _room(words) // 8 + 2, 2 * tiles + 4)
    limit = _places(words, queue) // 4 * 3
    if queue < 2 * tiles + 4:
        limit = min(limit, queue - 1)
    return words | (limit << 32) | (queue << 48)


@numba.njit(inline="always", **COMPILE)
def _table(block):
    """Address and number of places."""
    queue = _queue(block)
    return block + _BODY + 8 * queue, _places(_words(block), queue)


@numba.njit(inline="always", **COMPILE)
def _thinned(block, level):
    """Where the newest tile of a level stands, in a largest block."""
    return block + 8 * (LARGEST_BLOCK - _LEVELS) + 8 * level


@numba.njit(inline="always", **COMPILE)
def _level_at(block, tile):
    """Up to which level the tile has been thinned, or any later one."""
    if _words(block) < LARGEST_BLOCK:
        return 0
    level = 0
    while level + 1 < _LEVELS and get_i64(_thinned(block, level + 1)) >= tile:
        level += 1
    return level


@numba.njit(inline="always", **COMPILE)
def _pack(head, tiles, counted, level):
    return head | (tiles << 16) | (counted << 32) | (level << 48)


@numba.njit(inline="always", **COMPILE)
def _counted_level(block):
    return get_i64(block + _STATE) >> 48


@numba.njit(**COMPILE)
def _squeeze(block):
    """Move the queue to its front, without tiles that nothing counts for."""
    state, queue = get_i64(block + _STATE), block + _BODY
    head, tiles = state & _F16, (state >> 16) & _F16
    kept = 0
    for i in range(head, head + tiles):
        record = get_i64(queue + 8 * i)
        set_i64(queue + 8 * kept, record)
        kept += record & _F16 != 0
    set_i64(block + _STATE, _pack(0, kept, (state >> 32) & _F16, state >> 48))


@numba.njit(**COMPILE)
def _first_from(queue, head, tiles, tile):
    """Number of the first of the queue's words whose tile is at least ``tile``."""
    low = head
    while tiles > 0:
        half = (tiles + 1) >> 1
        low += half * (get_i64(queue + 8 * (low + half - 1)) < (tile << 16))
        tiles -= half
    return low


@numba.njit(**COMPILE)
def _count_in(block, tile):
    """One value more whose newest tile this is."""
    state, queue = get_i64(block + _STATE), block + _BODY
    head, tiles = state & _F16, (state >> 16) & _F16
    last = queue + 8 * (head + tiles - 1)
    if tiles > 0 and get_i64(last) >> 16 == tile:
        set_i64(last, get_i64(last) + 1)
        set_i64(block + _STATE, state + (I(1) << 32))
        return
    if head + tiles == _queue(block):
        _squeeze(block)
        state = get_i64(block + _STATE)
        head, tiles = I(0), (state >> 16) & _F16
    at = _first_from(queue, head, tiles, tile)
    here = queue + 8 * at
    if at < head + tiles and get_i64(here) >> 16 == tile:
        set_i64(here, get_i64(here) + 1)
        set_i64(block + _STATE, state + (I(1) << 32))
        return
    move_words(here + 8, here, head + tiles - at)
    set_i64(here, (tile << 16) | 1)
    set_i64(block + _STATE, state + (I(1) << 32) + (1 << 16))


@numba.njit(**COMPILE)
def _count_out(block, tile):
    """One value fewer whose newest tile this is."""
    state, queue = get_i64(block + _STATE), block + _BODY
    here = queue + 8 * _first_from(queue, state & _F16, (state >> 16) & _F16, tile)
    set_i64(here, get_i64(here) - 1)
    set_i64(block + _STATE, state - (I(1) << 32))


@numba.njit(inline="always", **COMPILE)
def _home(table, places, hashed):
    return table + 16 * (((hashed >> 32) & _LOW) * places >> 32)


@numba.njit(inline="always", **COMPILE)
def _find(table, places, oldest, hashed):
    """Address of the value's entry, or else of the place that it may take."""
    entry, end = _home(table, places, hashed), table + 16 * places
    free = I(0)
    while True:
        tile = get_i64(entry + _TILE)
        if tile == _NEVER:
            return free if free != 0 else entry
        if get_i64(entry) == hashed:
            return entry
        if tile < oldest and free == 0:
            free = entry
        entry += 16
        if entry == end:
            entry = table


@numba.njit(inline="always", **COMPILE)
def ask_for_queue(block):
    """Ask early for the few entries or the queue's end; the block's first words have come."""
    if _words(block) <= _SMALL_WORDS:
        for i in range(128, 8 * _words(block), 64):
            prefetch(block + i)
    else:
        state = get_i64(block + _STATE)
        prefetch(block + _BODY + 8 * ((state & _F16) + ((state >> 16) & _F16)))


@numba.njit(inline="always", **COMPILE)
def ask_for_place(block, word):
    """Ask early for where the word stands in the table."""
    if _words(block) > _SMALL_WORDS:
        table, places = _table(block)
        entry = _home(table, places, _hash_of(word))
        prefetch(entry)
        prefetch(entry + 64)


@numba.njit(**COMPILE)
def _living(block, entries, level, target):
    """Copy what lives and has at least the level to an address; how many, and their newest tile."""
    table, places = block + _BODY, entries
    if _words(block) > _SMALL_WORDS:
        table, places = _table(block)
    found, oldest, newest = 0, get_i64(block + _OLDEST), I(_NEVER)
    for i in range(places):
        hashed, tile = get_i64(table + 16 * i), get_i64(table + 16 * i + _TILE)
        if tile >= oldest and _level_of(hashed) >= level:
            set_i64(target + 16 * found, hashed)
            set_i64(target + 16 * found + _TILE, tile)
            newest = max(newest, tile)
            found += 1
    return found, newest


@numba.njit(**COMPILE)
def _lay_out(block, cell, entries, source):
    """Fill the table, whose queue knows the tiles already, with entries from an address; those that count are counted."""
    table, places = _table(block)
    queue, state = block + _BODY, get_i64(block + _STATE)
    level = state >> 48
    head, tiles = state & _F16, (state >> 16) & _F16
    for i in range(head, head + tiles):
        set_i64(queue + 8 * i, get_i64(queue + 8 * i) & ~_F16)
    set_i64(block + _STATE, _pack(head, tiles, 0, level))
    for place in range(places):
        set_i64(table + 16 * place + _TILE, _NEVER)
    for i in range(entries):
        hashed, tile = get_i64(source + 16 * i), get_i64(source + 16 * i + _TILE)
        entry = _find(table, places, _NEVER, hashed)
        set_i64(entry, hashed)
        set_i64(entry + _TILE, tile)
        if _level_of(hashed) >= level:
            _count_in(block, tile)
    set_i64(cell + 8, entries)


@numba.njit(**COMPILE)
def _lay_out_again(block, cell, level):
    """Without the dead; those of the level count."""
    held = np.empty(2 * get_i64(cell + 8), np.int64)
    entries, _ = _living(block, get_i64(cell + 8), 0, held.ctypes.data)
    state = get_i64(block + _STATE)
    set_i64(block + _STATE, (state & (_LOW << 16 | _F16)) | (level << 48))
    _lay_out(block, cell, entries, held.ctypes.data)


@numba.njit(**COMPILE)
def _move(arena, free, cell, tiles, entries, source):
    """To a block of the next size."""
    offset = get_i64(cell)
    old = arena + 8 * offset
    words = _words(old)
    larger = _larger(words)
    moved = allocate_cleared(arena, free, larger)
    block = arena + 8 * moved
    set_i64(block + _SHAPE, _shape_of(larger, tiles))
    set_i64(block + _OLDEST, get_i64(old + _OLDEST))
    if larger == LARGEST_BLOCK:
        for level in range(_LEVELS):
            set_i64(_thinned(block, level), _NEVER)
    if larger <= _SMALL_WORDS:
        move_words(block + _BODY, source, 2 * entries)
    else:
        if words > _SMALL_WORDS:
            _squeeze(old)
            held = (get_i64(old + _STATE) >> 16) & _F16
            move_words(block + _BODY, old + _BODY, held)
            set_i64(block + _STATE, _pack(0, held, 0, 0))
        _lay_out(block, cell, entries, source)
    release(arena, free, offset, words)
    set_i64(cell, moved)


@numba.njit(**COMPILE)
def _make_room(arena, free, cell, tiles, tile):
    """The block is full: without the dead, in a larger one, or thinned; ``tile`` is that of the next value."""
    block = arena + 8 * get_i64(cell)
    words = _words(block)
    held = np.empty(2 * get_i64(cell + 8), np.int64)
    target = held.ctypes.data
    entries, newest = _living(block, get_i64(cell + 8), 0, target)
    if entries >= _room(words) and words < LARGEST_BLOCK:
        _move(arena, free, cell, tiles, entries, target)
        return
    newest = max(tile, newest)
    while entries >= EXACT:
        level = min(_level_at(block, newest) + 1, _LEVELS - 1)
        set_i64(_thinned(block, level), newest)
        entries, _ = _living(block, get_i64(cell + 8), level, target)
    _lay_out(block, cell, entries, target)


@numba.njit(inline="always", **COMPILE)
def _without(block, oldest):
    """The state once tiles below ``oldest`` have left the queue."""
    state, queue = get_i64(block + _STATE), block + _BODY
    head, tiles, counted = state & _F16, (state >> 16) & _F16, (state >> 32) & _F16
    while tiles > 0 and get_i64(queue + 8 * head) >> 16 < oldest:
        counted -= get_i64(queue + 8 * head) & _F16
        head += 1
        tiles -= 1
    return _pack(head, tiles, counted, state >> 48)


@numba.njit(**COMPILE)
def _drop(block, cell, oldest):
    """Forget what the window has left."""
    set_i64(block + _OLDEST, oldest)
    if _words(block) > _SMALL_WORDS:
        set_i64(block + _STATE, _without(block, oldest))
        return
    kept = 0
    for i in range(get_i64(cell + 8)):
        tile = get_i64(block + _BODY + 16 * i + _TILE)
        set_i64(block + _BODY + 16 * kept, get_i64(block + _BODY + 16 * i))
        set_i64(block + _BODY + 16 * kept + _TILE, tile)
        kept += tile >= oldest
    set_i64(cell + 8, kept)


@numba.njit(inline="always", **COMPILE)
def drop_older_than(arena, cell, oldest):
    """Forget what the window has left: tiles with numbers below ``oldest``."""
    if get_i64(cell) != 0 and get_i64(arena + 8 * get_i64(cell) + _OLDEST) < oldest:
        _drop(arena + 8 * get_i64(cell), cell, oldest)


@numba.njit(inline="always", **COMPILE)
def _add_to_few(block, cell, tile, hashed):
    """Whether there was room in a block without a table."""
    entries = get_i64(cell + 8)
    entry = block + _BODY
    for _ in range(entries):
        if get_i64(entry) == hashed:
            set_i64(entry + _TILE, max(get_i64(entry + _TILE), tile))
            return True
        entry += 16
    if entries == _room(_words(block)):
        return False
    set_i64(entry, hashed)
    set_i64(entry + _TILE, tile)
    set_i64(cell + 8, entries + 1)
    return True


@numba.njit(inline="always", **COMPILE)
def _add_to_table(block, cell, tile, hashed):
    """Whether there was room in a block with one."""
    table, places = _table(block)
    oldest = get_i64(block + _OLDEST)
    entry = _find(table, places, oldest, hashed)
    held = get_i64(entry + _TILE)
    if held >= tile or _level_of(hashed) < _level_at(block, tile):
        return True
    if held == _NEVER:
        if get_i64(cell + 8) >= _limit(block):
            return False
        set_i64(cell + 8, get_i64(cell + 8) + 1)
    counts = _level_of(hashed) >= _counted_level(block)
    if held >= oldest and counts:
        _count_out(block, held)
    set_i64(entry, hashed)
    set_i64(entry + _TILE, tile)
    if counts:
        _count_in(block, tile)
    return True


@numba.njit(**COMPILE)
def add_distinct(arena, free, cell, tiles, oldest, tile, word):
    """``word`` was seen in the tile with the number ``tile``, not below ``oldest`` of a window of ``tiles``."""
    if get_i64(cell) == 0:
        words = _larger(0)
        set_i64(cell, allocate_cleared(arena, free, words))
        set_i64(arena + 8 * get_i64(cell) + _SHAPE, words)
        set_i64(arena + 8 * get_i64(cell) + _OLDEST, oldest)
    hashed = _hash_of(word)
    while True:
        block = arena + 8 * get_i64(cell)
        if _words(block) <= _SMALL_WORDS:
            if _add_to_few(block, cell, tile, hashed):
                return
        elif _add_to_table(block, cell, tile, hashed):
            return
        _make_room(arena, free, cell, tiles, tile)


@numba.njit(**COMPILE)
def _count_later(block, entries, level, oldest):
    """How many will count once tiles below ``oldest`` have left."""
    if _words(block) > _SMALL_WORDS and level == _counted_level(block):
        return (_without(block, oldest) >> 32) & _F16
    table, places = block + _BODY, entries
    if _words(block) > _SMALL_WORDS:
        table, places = _table(block)
    counted = 0
    for i in range(places):
        is_in = get_i64(table + 16 * i + _TILE) >= oldest
        counted += is_in and _level_of(get_i64(table + 16 * i)) >= level
    return counted


@numba.njit(**COMPILE)
def read_distinct(arena, cell, oldest, is_late):
    """Number of different values in tiles from ``oldest`` on, as a ``float64``; a late event changes nothing."""
    if get_i64(cell) == 0:
        return 0.0
    block = arena + 8 * get_i64(cell)
    level = _level_at(block, oldest)
    if is_late:
        return float(_count_later(block, get_i64(cell + 8), level, oldest) << level)
    drop_older_than(arena, cell, oldest)
    if _words(block) <= _SMALL_WORDS:
        return float(get_i64(cell + 8))
    if level != _counted_level(block):
        _lay_out_again(block, cell, level)
    return float(((get_i64(block + _STATE) >> 32) & _F16) << level)

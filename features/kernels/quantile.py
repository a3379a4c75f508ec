"""The values that a window holds, in order: all of them as long as a block has room, then a weighted sample.

A cell is ``block | entries``. A block in the arena starts with ``words | weight of all | oldest tile | compactions``;
then come the values in ascending order (``float64``), then a tag for each: ``tile's start (ms) << 6 | log2(weight)``.

A full largest block is compacted as the levels of Karnin, Lang, Liberty (*Optimal Quantile Approximation in Streams*,
FOCS 2016) are: of the tile and weight with most entries every other one leaves, and those that stay weigh twice as
much; a coin says which. The coin is a hash of how many were tossed, so equal logs give equal bits. Weights never
cross tiles, so what leaves the window leaves it exactly.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import LARGEST, allocate, release
from features.kernels.memory import get_f64, get_i64, set_f64, set_i64

I, U = types.int64, types.uint64

_WORDS, _WEIGHT, _OLDEST, _COMPACTIONS, _VALUES = 0, 8, 16, 24, 32
_HEADER = 4
_LARGEST_BLOCK = 1 << 13
EXACT = (_LARGEST_BLOCK - _HEADER) // 2
"""Values that a cell holds before any are thinned."""
MAX_TILES = 128
"""Most tiles of a window: some entry of a full block has a partner then, and each tile has enough to stand for it."""
_LOG_WEIGHTS = 48
_NEWEST_TILE = 2**57
_BILLION = 1_000_000_000


@numba.njit(inline="always", **COMPILE)
def _room(words):
    return (words - _HEADER) // 2


@numba.njit(inline="always", **COMPILE)
def _larger(words):
    """The next size: 4, 8, 16 and 30 entries, then powers of two."""
    if words == 0:
        return _HEADER + 8
    if words < 36:
        return _HEADER + 2 * (words - _HEADER)
    return 64 if words < 64 else 2 * words


@numba.njit(inline="always", **COMPILE)
def _tag(block, i):
    """Address of an entry's tag."""
    return block + _VALUES + 8 * (_room(get_i64(block + _WORDS)) + i)


@numba.njit(inline="always", **COMPILE)
def _weight(tag):
    return I(1) << (tag & 63)


@numba.njit(inline="always", **COMPILE)
def _toss(number):
    """One fair bit of a count (the finaliser of SplitMix64)."""
    x = (U(number) + U(1)) * U(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return I((x ^ (x >> U(31))) & U(1))


@numba.njit(**COMPILE)
def _with_room(arena, free, cell):
    """The cell's block, with room for one entry more unless it is the largest and full."""
    offset, entries = get_i64(cell), get_i64(cell + 8)
    words = get_i64(arena + 8 * offset) if offset != 0 else 0
    if words == _LARGEST_BLOCK or (words != 0 and entries < _room(words)):
        return arena + 8 * offset
    larger = _larger(words)
    moved = allocate(arena, free, larger)
    set_i64(free + 8 * LARGEST, max(get_i64(free + 8 * LARGEST), larger))
    block, old = arena + 8 * moved, arena + 8 * offset
    set_i64(block + _WORDS, larger)
    set_i64(block + _WEIGHT, get_i64(old + _WEIGHT) if words != 0 else 0)
    set_i64(block + _OLDEST, get_i64(old + _OLDEST) if words != 0 else _NEWEST_TILE)
    set_i64(block + _COMPACTIONS, 0)
    for i in range(entries):
        set_i64(block + _VALUES + 8 * i, get_i64(old + _VALUES + 8 * i))
        set_i64(_tag(block, i), get_i64(_tag(old, i)))
    if words != 0:
        release(arena, free, offset, words)
    set_i64(cell, moved)
    return block


@numba.njit(**COMPILE)
def _fullest(block, entries, tile):
    """The tag that most entries have; of equally many the lightest, then the oldest."""
    oldest = get_i64(block + _OLDEST)
    counts = np.zeros((MAX_TILES + 2) * _LOG_WEIGHTS, np.int64)
    for i in range(entries):
        tag = get_i64(_tag(block, i))
        counts[((tag >> 6) - oldest) // tile * _LOG_WEIGHTS + (tag & 63)] += 1
    best, most = I(0), I(0)
    for log_weight in range(_LOG_WEIGHTS):
        for number in range(MAX_TILES + 2):
            count = counts[number * _LOG_WEIGHTS + log_weight]
            if count > most:
                best, most = ((oldest + number * tile) << 6) | log_weight, count
    return best, most


@numba.njit(**COMPILE)
def _compact(block, cell, tile):
    """Of the entries of one tag, pair by pair, one stays and weighs twice as much."""
    entries = get_i64(cell + 8)
    tag, count = _fullest(block, entries, tile)
    tossed = get_i64(block + _COMPACTIONS)
    stays = _toss(tossed)
    set_i64(block + _COMPACTIONS, tossed + 1)
    kept, seen, pairs = 0, 0, count // 2
    for i in range(entries):
        mine = get_i64(_tag(block, i))
        if mine == tag and seen < 2 * pairs:
            seen += 1
            if (seen & 1) != stays:
                continue
            mine += 1
        set_i64(block + _VALUES + 8 * kept, get_i64(block + _VALUES + 8 * i))
        set_i64(_tag(block, kept), mine)
        kept += 1
    set_i64(cell + 8, kept)


@numba.njit(**COMPILE)
def forget_older_than(arena, cell, oldest):
    """Forget what the window has left."""
    if get_i64(cell) == 0:
        return
    block, entries = arena + 8 * get_i64(cell), get_i64(cell + 8)
    if get_i64(block + _OLDEST) >= oldest:
        return
    kept, weight, first = 0, I(0), I(_NEWEST_TILE)
    for i in range(entries):
        tag = get_i64(_tag(block, i))
        if (tag >> 6) < oldest:
            continue
        set_i64(block + _VALUES + 8 * kept, get_i64(block + _VALUES + 8 * i))
        set_i64(_tag(block, kept), tag)
        first = min(first, tag >> 6)
        weight += _weight(tag)
        kept += 1
    set_i64(cell + 8, kept)
    set_i64(block + _OLDEST, first)
    set_i64(block + _WEIGHT, weight)


@numba.njit(**COMPILE)
def add_value(arena, free, cell, tile, start, value):
    """One value more, in the tile of length ``tile`` that starts at ``start``."""
    block = _with_room(arena, free, cell)
    if get_i64(cell + 8) == _room(get_i64(block + _WORDS)):
        _compact(block, cell, tile)
    entries = get_i64(cell + 8)
    low, high = 0, entries
    while low < high:
        middle = (low + high) >> 1
        if get_f64(block + _VALUES + 8 * middle) <= value:
            low = middle + 1
        else:
            high = middle
    for i in range(entries, low, -1):
        set_i64(block + _VALUES + 8 * i, get_i64(block + _VALUES + 8 * (i - 1)))
        set_i64(_tag(block, i), get_i64(_tag(block, i - 1)))
    set_f64(block + _VALUES + 8 * low, value + 0.0)
    set_i64(_tag(block, low), start << 6)
    set_i64(cell + 8, entries + 1)
    set_i64(block + _WEIGHT, get_i64(block + _WEIGHT) + 1)
    set_i64(block + _OLDEST, min(get_i64(block + _OLDEST), start))


@numba.njit(**COMPILE)
def read_quantile(arena, cell, oldest, is_late, q):
    """The smallest value that is not below at least ``q`` billionths of the values, and whether there is any."""
    if get_i64(cell) == 0:
        return 0.0, False
    if not is_late:
        forget_older_than(arena, cell, oldest)
    block, entries = arena + 8 * get_i64(cell), get_i64(cell + 8)
    weight = get_i64(block + _WEIGHT)
    is_whole = get_i64(block + _OLDEST) >= oldest
    if not is_whole:
        weight = I(0)
        for i in range(entries):
            tag = get_i64(_tag(block, i))
            weight += _weight(tag) if (tag >> 6) >= oldest else 0
    if weight == 0:
        return 0.0, False
    rank = max(I(1), (q * weight + _BILLION - 1) // _BILLION)
    if is_whole and weight == entries:
        return get_f64(block + _VALUES + 8 * (rank - 1)), True
    at, below = -1, I(0)
    while below < rank:
        at += 1
        tag = get_i64(_tag(block, at))
        below += _weight(tag) if (tag >> 6) >= oldest else 0
    return get_f64(block + _VALUES + 8 * at), True


@numba.njit(**COMPILE)
def clear_quantile(arena, free, cell):
    """Forget everything."""
    if get_i64(cell) != 0:
        release(arena, free, get_i64(cell), get_i64(arena + 8 * get_i64(cell) + _WORDS))
    set_i64(cell, 0)
    set_i64(cell + 8, 0)

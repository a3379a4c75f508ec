"""The values that a window holds, in order: all of them as long as a block has room, then a weighted sample.

A cell is ``block | entries``. An entry is one word, so that entries are in order as integers::

    value as float32, ordered as an integer (32 bits) | number of its tile (16, modulo) | log2(weight) (8)

A block in the arena starts with ``words, runs | weight of all | oldest tile | compactions``. Up to 256 words, its
entries follow in ascending order. A larger one holds them in *runs* of up to 64, none of which reaches into the next. A
directory of three arrays leads to them: the lower bound of each run, the weight of all up to its end, and its
``entries | how many of them are in order | place``; places that no run has stand behind. An entry is appended to the run
that a search finds, and put in order there when a rank in that run is read; most leave the window before. What left is
looked for once a tile.

A full largest block is compacted as the levels of Karnin, Lang, Liberty (*Optimal Quantile Approximation in Streams*,
FOCS 2016) are: of the tile and weight with most entries every other one leaves, and those that stay weigh twice as
much; a coin says which. The coin is a hash of how many were tossed, so equal logs give equal bits. Weights never
cross tiles, so what leaves the window leaves it exactly.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import allocate_cleared, release
from features.kernels.memory import get_i64, move_words, prefetch, set_i64

I, U = types.int64, types.uint64

_SHAPE, _WEIGHT, _OLDEST, _COMPACTIONS, _ENTRIES = 0, 8, 16, 24, 32
_HEADER = 4
_SIMPLE = 256
"""Most words of a block without runs."""
_RUN = 64
_SPREAD = 48
"""Entries of a run when a block is laid out anew."""
_LARGEST_BLOCK = 1 << 13
EXACT = _LARGEST_BLOCK // 2 - 2
"""Values that a cell holds before any are thinned."""
MAX_TILES = 128
"""Most tiles of a window: some entry of a full block has a partner then, and each tile has enough to stand for it."""
_LOG_WEIGHTS = 48
_BILLION = 1_000_000_000
_LOW = 0xFFFFFFFF


@numba.njit(inline="always", **COMPILE)
def _words(block):
    return get_i64(block + _SHAPE) & _LOW


@numba.njit(inline="always", **COMPILE)
def _runs(block):
    return get_i64(block + _SHAPE) >> 32


@numba.njit(inline="always", **COMPILE)
def _room(words):
    """Entries of a block; runs are about half full."""
    return words - _HEADER if words <= _SIMPLE else words // 2 - 2


@numba.njit(inline="always", **COMPILE)
def _larger(words):
    """The next size: 4, 8, 16, 32 and 60 entries, then powers of two."""
    if words == 0:
        return _HEADER + 4
    if words < 36:
        return _HEADER + 2 * (words - _HEADER)
    return 64 if words < 64 else 2 * words


@numba.njit(inline="always", **COMPILE)
def _places(words):
    """Most runs of a block."""
    return (words - _HEADER - 3 * (words // _RUN)) // _RUN


@numba.njit(inline="always", **COMPILE)
def _bound(block, r):
    """Address of a run's lower bound; the first run's is not looked at."""
    return block + _ENTRIES + 8 * r


@numba.njit(inline="always", **COMPILE)
def _sum(block, words, r):
    """Address of the weight of all entries up to a run's end."""
    return block + _ENTRIES + 8 * (words // _RUN + r)


@numba.njit(inline="always", **COMPILE)
def _about(block, words, r):
    """Address of a run's ``entries | in order | place``, the latter two of 8 bits."""
    return block + _ENTRIES + 8 * (2 * (words // _RUN) + r)


@numba.njit(inline="always", **COMPILE)
def _run_at(block, words, about):
    """Address of a run's first entry."""
    return block + _ENTRIES + 8 * (3 * (words // _RUN) + _RUN * (about & 0xFF))


@numba.njit(inline="always", **COMPILE)
def _entry_of(value, tile):
    """An entry of weight 1. Rounding keeps the order, and float32 is what is read in the end."""
    bits = I(np.float32(value + 0.0).view(np.int32))
    ordered = bits if bits >= 0 else bits ^ I(0x7FFFFFFF)
    return (ordered << 32) | ((tile & 0xFFFF) << 8)


@numba.njit(inline="always", **COMPILE)
def _value_of(entry):
    ordered = entry >> 32
    return np.float64(np.int32(ordered if ordered >= 0 else ordered ^ I(0x7FFFFFFF)).view(np.float32))


@numba.njit(inline="always", **COMPILE)
def _weight(entry):
    return I(1) << (entry & 0xFF)


@numba.njit(inline="always", **COMPILE)
def _is_in(entry, first, gone):
    """Whether its tile is none of the ``gone`` from ``first`` on."""
    return (((entry >> 8) - first) & 0xFFFF) >= gone


@numba.njit(inline="always", **COMPILE)
def _place(words, count, entry):
    """How many of the ascending words at an address are at most ``entry``; of 8 and more, up to 8 behind them are read."""
    low, below = 0, I(0)
    if count < 8:
        for i in range(count):
            below += get_i64(words + 8 * i) <= entry
    else:
        while count > 16:
            half = (count + 1) >> 1
            low += half * (get_i64(words + 8 * (low + half - 1)) <= entry)
            count -= half
        for i in range(16):
            below += I(get_i64(words + 8 * (low + i)) <= entry) & I(i < count)
    return low + below


@numba.njit(inline="always", **COMPILE)
def _toss(number):
    """One fair bit of a count (the finaliser of SplitMix64)."""
    x = (U(number) + U(1)) * U(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return I((x ^ (x >> U(31))) & U(1))


@numba.njit(inline="always", **COMPILE)
def _weight_of(entries, count):
    """What the words at an address weigh together."""
    weight = I(0)
    for i in range(count):
        weight += _weight(get_i64(entries + 8 * i))
    return weight


@numba.njit(inline="always", **COMPILE)
def _insert(entries, count, entry):
    """Among the ascending words at an address."""
    place = _place(entries, count, entry)
    at = entries + 8 * place
    move_words(at + 8, at, count - place)
    set_i64(at, entry)


@numba.njit(**COMPILE)
def _put_in_order(run, about):
    """The entries of a run at an address; returns what is then about it."""
    count = about >> 16
    for i in range((about >> 8) & 0xFF, count):
        _insert(run, i, get_i64(run + 8 * i))
    return (count << 16) | (count << 8) | (about & 0xFF)


@numba.njit(**COMPILE)
def _gather(block, entries, target):
    """Copy all entries to an address, in order."""
    words = _words(block)
    if words <= _SIMPLE:
        move_words(target, block + _ENTRIES, entries)
        return
    for r in range(_runs(block)):
        about = get_i64(_about(block, words, r))
        move_words(target, _run_at(block, words, about), about >> 16)
        _put_in_order(target, about)
        target += 8 * (about >> 16)


@numba.njit(**COMPILE)
def _spread(block, words, entries, source):
    """Lay a block out anew with entries from an address, in order."""
    if words <= _SIMPLE:
        set_i64(block + _SHAPE, words)
        move_words(block + _ENTRIES, source, entries)
        return
    runs = max(1, (entries + _SPREAD - 1) // _SPREAD)
    set_i64(block + _SHAPE, words | (runs << 32))
    begin, weight = 0, I(0)
    for r in range(_places(words)):
        count = entries * (r + 1) // runs - begin if r < runs else 0
        if count > 0:
            set_i64(_bound(block, r), get_i64(source + 8 * begin))
        move_words(_run_at(block, words, r), source + 8 * begin, count)
        weight += _weight_of(source + 8 * begin, count)
        set_i64(_sum(block, words, r), weight)
        set_i64(_about(block, words, r), (count << 16) | (count << 8) | r)
        begin += count


@numba.njit(**COMPILE)
def _grow(arena, free, cell, tile):
    """Move to a larger block, or to the first one."""
    offset, entries = get_i64(cell), get_i64(cell + 8)
    old = arena + 8 * offset
    words = _words(old) if offset != 0 else 0
    larger = _larger(words)
    moved = allocate_cleared(arena, free, larger)
    block = arena + 8 * moved
    held = np.empty(entries + 1, np.int64)
    if offset != 0:
        _gather(old, entries, held.ctypes.data)
    set_i64(block + _WEIGHT, get_i64(old + _WEIGHT) if offset != 0 else 0)
    set_i64(block + _OLDEST, get_i64(old + _OLDEST) if offset != 0 else tile)
    if offset != 0:
        release(arena, free, offset, words)
    _spread(block, larger, entries, held.ctypes.data)
    set_i64(cell, moved)


@numba.njit(**COMPILE)
def _fullest(held, oldest):
    """The tile and weight that most entries have; of equally many the lightest, then the oldest."""
    counts = np.zeros((MAX_TILES + 2) * _LOG_WEIGHTS, np.int64)
    for entry in held:
        counts[(((entry >> 8) - oldest) & 0xFFFF) * _LOG_WEIGHTS + (entry & 0xFF)] += 1
    best, most = I(0), I(0)
    for log_weight in range(_LOG_WEIGHTS):
        for number in range(MAX_TILES + 2):
            count = counts[number * _LOG_WEIGHTS + log_weight]
            if count > most:
                best, most = (((oldest + number) & 0xFFFF) << 8) | log_weight, count
    return best, most


@numba.njit(**COMPILE)
def _compact(block, cell):
    """Of the entries of one tile and weight, pair by pair, one stays and weighs twice as much."""
    entries = get_i64(cell + 8)
    held = np.empty(entries, np.int64)
    _gather(block, entries, held.ctypes.data)
    tag, count = _fullest(held, get_i64(block + _OLDEST))
    tossed = get_i64(block + _COMPACTIONS)
    stays = _toss(tossed)
    set_i64(block + _COMPACTIONS, tossed + 1)
    kept, seen, pairs = 0, 0, count // 2
    for i in range(entries):
        entry = held[i]
        if entry & _LOW == tag and seen < 2 * pairs:
            seen += 1
            if (seen & 1) != stays:
                continue
            entry += 1
        held[kept] = entry
        kept += 1
    _spread(block, _words(block), kept, held.ctypes.data)
    set_i64(cell + 8, kept)


@numba.njit(inline="always", **COMPILE)
def _keep(target, source, count, first, gone):
    """Of the words at ``source``, move those that stay to ``target``, before it or the same; how many."""
    kept = 0
    for i in range(count):
        entry = get_i64(source + 8 * i)
        set_i64(target + 8 * kept, entry)
        kept += _is_in(entry, first, gone)
    return kept


@numba.njit(**COMPILE)
def _forget(block, cell, oldest):
    first, words = get_i64(block + _OLDEST), _words(block)
    gone = oldest - first
    set_i64(block + _OLDEST, oldest)
    if words <= _SIMPLE:
        kept = _keep(block + _ENTRIES, block + _ENTRIES, get_i64(cell + 8), first, gone)
        set_i64(cell + 8, kept)
        set_i64(block + _WEIGHT, kept)
        return
    is_plain = get_i64(block + _WEIGHT) == get_i64(cell + 8)
    held, entries, weight = 0, 0, I(0)
    for r in range(_runs(block)):
        about, bound = get_i64(_about(block, words, r)), get_i64(_bound(block, r))
        run = _run_at(block, words, about)
        in_order = (about >> 8) & 0xFF
        ordered = _keep(run, run, in_order, first, gone)
        kept = ordered + _keep(run + 8 * ordered, run + 8 * in_order, (about >> 16) - in_order, first, gone)
        entries += kept
        weight += kept if is_plain else _weight_of(run, kept)
        set_i64(_about(block, words, r), get_i64(_about(block, words, held)))
        set_i64(_about(block, words, held), (kept << 16) | (ordered << 8) | (about & 0xFF))
        set_i64(_bound(block, held), bound)
        set_i64(_sum(block, words, held), weight)
        held += kept > 0
    set_i64(block + _SHAPE, words | (max(held, 1) << 32))
    set_i64(block + _WEIGHT, weight)
    set_i64(cell + 8, entries)


@numba.njit(inline="always", **COMPILE)
def forget_older_than(arena, cell, oldest):
    """Forget what the window has left: tiles with numbers below ``oldest``."""
    if get_i64(cell) != 0 and get_i64(arena + 8 * get_i64(cell) + _OLDEST) < oldest:
        _forget(arena + 8 * get_i64(cell), cell, oldest)


@numba.njit(**COMPILE)
def _split(block, words, r):
    """The upper half of a full run becomes one of its own."""
    runs, about = _runs(block), get_i64(_about(block, words, r))
    taken = get_i64(_about(block, words, runs))
    left, right, half = _run_at(block, words, about), _run_at(block, words, taken), _RUN // 2
    _put_in_order(left, about)
    move_words(right, left + 8 * half, half)
    move_words(_bound(block, r + 2), _bound(block, r + 1), runs - r - 1)
    move_words(_sum(block, words, r + 1), _sum(block, words, r), runs - r)
    move_words(_about(block, words, r + 2), _about(block, words, r + 1), runs - r - 1)
    set_i64(_bound(block, r + 1), get_i64(right))
    set_i64(_sum(block, words, r), get_i64(_sum(block, words, r)) - _weight_of(right, half))
    set_i64(_about(block, words, r), (half << 16) | (half << 8) | (about & 0xFF))
    set_i64(_about(block, words, r + 1), (half << 16) | (half << 8) | (taken & 0xFF))
    set_i64(block + _SHAPE, words | ((runs + 1) << 32))


@numba.njit(**COMPILE)
def _append(block, words, entries, entry):
    """To the run that it belongs to."""
    r = _place(_bound(block, 1), _runs(block) - 1, entry)
    about = get_i64(_about(block, words, r))
    if about >> 16 == _RUN:
        if _runs(block) < _places(words):
            _split(block, words, r)
        else:
            held = np.empty(entries, np.int64)
            _gather(block, entries, held.ctypes.data)
            _spread(block, words, entries, held.ctypes.data)
        r = _place(_bound(block, 1), _runs(block) - 1, entry)
        about = get_i64(_about(block, words, r))
    set_i64(_run_at(block, words, about) + 8 * (about >> 16), entry)
    set_i64(_about(block, words, r), about + (1 << 16))
    for later in range(r, _runs(block)):
        set_i64(_sum(block, words, later), get_i64(_sum(block, words, later)) + 1)


@numba.njit(**COMPILE)
def add_value(arena, free, cell, tile, value):
    """One value more, in the tile with the number ``tile``."""
    if get_i64(cell) == 0:
        _grow(arena, free, cell, tile)
    block = arena + 8 * get_i64(cell)
    entries, words = get_i64(cell + 8), _words(block)
    if entries == _room(words):
        if words == _LARGEST_BLOCK:
            _compact(block, cell)
        else:
            _grow(arena, free, cell, tile)
            block = arena + 8 * get_i64(cell)
        entries, words = get_i64(cell + 8), _words(block)
    entry = _entry_of(value, tile)
    if words <= _SIMPLE:
        _insert(block + _ENTRIES, entries, entry)
    else:
        _append(block, words, entries, entry)
    set_i64(cell + 8, entries + 1)
    set_i64(block + _WEIGHT, get_i64(block + _WEIGHT) + 1)
    set_i64(block + _OLDEST, min(get_i64(block + _OLDEST), tile))


@numba.njit(inline="always", **COMPILE)
def ask_for_entries(block):
    """Ask early for the entries or the directory; the block's first words have come."""
    words = _words(block)
    if words <= _SIMPLE:
        for i in range(12, words - _HEADER, 8):
            prefetch(block + _ENTRIES + 8 * i)
        return
    for r in range(0, _runs(block), 8):
        prefetch(_bound(block, r))
        prefetch(_sum(block, words, r))
        prefetch(_about(block, words, r))


@numba.njit(inline="always", **COMPILE)
def ask_for_run(block, value):
    """Ask early for where the value will be appended; the directory has come."""
    words = _words(block)
    if words > _SIMPLE:
        r = _place(_bound(block, 1), _runs(block) - 1, _entry_of(value, 0))
        about = get_i64(_about(block, words, r))
        prefetch(_run_at(block, words, about) + 8 * (about >> 16))


@numba.njit(inline="always", **COMPILE)
def _ranked(entries, rank):
    """The entry with which the weight of the words at an address reaches ``rank``."""
    at, below = -1, I(0)
    while below < rank:
        at += 1
        below += _weight(get_i64(entries + 8 * at))
    return get_i64(entries + 8 * at)


@numba.njit(**COMPILE)
def _rank_of(weight, q):
    return max(I(1), (q * weight + _BILLION - 1) // _BILLION)


@numba.njit(**COMPILE)
def _ranked_aside(run, about, rank):
    """As `_ranked` of a run once it is in order; it stays as it is."""
    held = np.empty(_RUN, np.int64)
    move_words(held.ctypes.data, run, about >> 16)
    _put_in_order(held.ctypes.data, about)
    return _ranked(held.ctypes.data, rank)


@numba.njit(**COMPILE)
def _read_later(block, entries, oldest, q):
    """As it will be once tiles below ``oldest`` have left; nothing is changed."""
    held = np.empty(entries, np.int64)
    _gather(block, entries, held.ctypes.data)
    first, all_ = get_i64(block + _OLDEST), held.ctypes.data
    weight = _weight_of(all_, _keep(all_, all_, entries, first, oldest - first))
    if weight == 0:
        return 0.0, False
    return _value_of(_ranked(all_, _rank_of(weight, q))), True


@numba.njit(**COMPILE)
def read_quantile(arena, cell, oldest, is_late, q):
    """The smallest value that is not below at least ``q`` billionths of the values, and whether there is any."""
    if get_i64(cell) == 0:
        return 0.0, False
    if not is_late:
        forget_older_than(arena, cell, oldest)
    block, entries = arena + 8 * get_i64(cell), get_i64(cell + 8)
    if get_i64(block + _OLDEST) < oldest:
        return _read_later(block, entries, oldest, q)
    if entries == 0:
        return 0.0, False
    words, rank = _words(block), _rank_of(get_i64(block + _WEIGHT), q)
    if words <= _SIMPLE:
        return _value_of(get_i64(block + _ENTRIES + 8 * (rank - 1))), True
    r = _place(_sum(block, words, 0), _runs(block), rank - 1)
    rank -= get_i64(_sum(block, words, r - 1)) if r > 0 else 0
    about = get_i64(_about(block, words, r))
    run = _run_at(block, words, about)
    if (about >> 8) & 0xFF != about >> 16:
        if is_late:
            return _value_of(_ranked_aside(run, about, rank)), True
        set_i64(_about(block, words, r), _put_in_order(run, about))
    is_plain = get_i64(block + _WEIGHT) == entries
    return _value_of(get_i64(run + 8 * (rank - 1)) if is_plain else _ranked(run, rank)), True

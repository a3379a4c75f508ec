"""Sawtooth windows over tiles: one group of lanes per key and (window, tile), O(1) amortised an event.

A *group* is a run of words in the key's slot::

    start | ring | shape | current lanes ... | back lanes ...

``start`` is where the current tile starts (ms, a multiple of the tile). Older tiles that hold anything
stand in a ring in the arena, oldest first, as entries ``tile start | lanes ...``; ``shape`` packs the
ring's head, length, front and capacity, 16 bits each. A lane is a count (``int64``), a sum (``float64``) or
a peak (``uint64``, the largest so far, 0 of nothing; see `peak_of`), in this order; behind them stand moments, three
lanes each: number, mean and sum of squared differences from it (``float64``).

The ring is a two-stack queue (Tangwongsan, Hirzel, Schneider: *Low-Latency Sliding-Window Aggregation
in Worst-Case Constant Time*, 2017): its first ``front`` entries hold the aggregate from themselves to
the end of the front, the others hold their own tile, and the back lanes hold the sum of those. So a
window is ``front[head] + back + current``: nothing is ever subtracted, and an old tile leaves by moving
the head. When the front is used up, the back is turned into a front, newest to oldest.
"""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import allocate, release
from features.kernels.memory import bits_of, get_f64, get_i64, number_of, set_f64, set_i64

I, U = types.int64, types.uint64

START, RING, SHAPE, LANES = 0, 8, 16, 24
"""Byte offsets inside a group."""

COUNT_LANE, SUM_LANE, HIGHEST_LANE, LOWEST_LANE, MOMENTS_LANE, NO_LANE = range(6)
"""Sorts of lanes; the two words behind the first of moments are no lanes of their own."""

GROUP_WORDS = 3
"""Words of a group before its lanes; then two words a lane."""

MAX_TILES = 20_000
"""Most tiles in one window; a ring that grew by half has to fit 15 bits."""

_F16 = 0xFFFF
_SIGN = -(2**63)


@numba.njit(inline="always", **COMPILE)
def tile_start(time, tile):
    """Start of the tile that holds ``time``; tiles are aligned to the epoch, before it as well."""
    return (time // tile) * tile


@numba.njit(inline="always", **COMPILE)
def _pack(head, length, front, capacity):
    return head | (length << 16) | (front << 32) | (capacity << 48)


@numba.njit(inline="always", **COMPILE)
def _place(index, capacity):
    return index - capacity if index >= capacity else index


@numba.njit(inline="always", **COMPILE)
def _clear(address, words):
    for word in range(words):
        set_i64(address + 8 * word, 0)


@numba.njit(inline="always", **COMPILE)
def _copy(target, source, words):
    for word in range(words):
        set_i64(target + 8 * word, get_i64(source + 8 * word))


@numba.njit(inline="always", **COMPILE)
def peak_of(value, is_lowest):
    """A number as a word that grows with it, or falls; never 0, which is the peak of nothing. -0 counts as 0."""
    bits = bits_of(value + 0.0)
    rising = ~bits if bits < 0 else bits ^ I(_SIGN)
    return ~rising if is_lowest else rising


@numba.njit(inline="always", **COMPILE)
def number_at_peak(peak, is_lowest):
    """The number again."""
    rising = ~peak if is_lowest else peak
    return number_of(rising ^ I(_SIGN) if rising < 0 else ~rising)


@numba.njit(inline="always", **COMPILE)
def keep_peak(word, peak):
    """Keep the larger one."""
    if U(peak) > U(get_i64(word)):
        set_i64(word, peak)


@numba.njit(**COMPILE)
def add_to_moments(word, value):
    """One value more, after Welford (*Note on a Method for Calculating Corrected Sums of Squares and Products*, 1962)."""
    number, mean = get_f64(word) + 1.0, get_f64(word + 8)
    moved = mean + (value - mean) / number
    set_f64(word, number)
    set_f64(word + 8, moved)
    set_f64(word + 16, get_f64(word + 16) + (value - mean) * (value - moved))


@numba.njit(inline="always", **COMPILE)
def fold_into_lane(word, sort, value):
    """One event more in a lane."""
    if sort == COUNT_LANE:
        set_i64(word, get_i64(word) + 1)
    elif sort == SUM_LANE:
        set_f64(word, get_f64(word) + value)
    elif sort <= LOWEST_LANE:
        keep_peak(word, peak_of(value, sort == LOWEST_LANE))
    elif sort == MOMENTS_LANE:
        add_to_moments(word, value)


@numba.njit(**COMPILE)
def _merge_moments(target, source):
    """After Chan, Golub, LeVeque (*Updating Formulae and a Pairwise Algorithm for Computing Sample Variances*, 1979)."""
    mine, others = get_f64(target), get_f64(source)
    if others == 0.0:
        return
    if mine == 0.0:
        _copy(target, source, 3)
        return
    number, apart = mine + others, get_f64(source + 8) - get_f64(target + 8)
    set_f64(target, number)
    set_f64(target + 8, get_f64(target + 8) + apart * (others / number))
    squares = get_f64(target + 16) + get_f64(source + 16)
    set_f64(target + 16, squares + apart * apart * (mine * others / number))


@numba.njit(**COMPILE)
def _merge(target, source, counts, sums, peaks, lanes):
    """Take what stands in ``source`` into ``target``, lane by lane."""
    for lane in range(counts):
        set_i64(target + 8 * lane, get_i64(target + 8 * lane) + get_i64(source + 8 * lane))
    for lane in range(counts, counts + sums):
        set_f64(target + 8 * lane, get_f64(target + 8 * lane) + get_f64(source + 8 * lane))
    for lane in range(counts + sums, counts + sums + peaks):
        keep_peak(target + 8 * lane, get_i64(source + 8 * lane))
    for lane in range(counts + sums + peaks, lanes, 3):
        _merge_moments(target + 8 * lane, source + 8 * lane)


@numba.njit(**COMPILE)
def clear_group(arena, free, group, lanes):
    """Forget everything that the group holds."""
    ring = get_i64(group + RING)
    if ring != 0:
        release(arena, free, ring, (get_i64(group + SHAPE) >> 48) * (lanes + 1))
    _clear(group + RING, 2 + 2 * lanes)


@numba.njit(**COMPILE)
def _turn(ring, head, length, capacity, counts, sums, peaks, lanes):
    """Make every entry hold the aggregate from itself to the newest one."""
    entry = 8 * (lanes + 1)
    newer = ring + _place(head + length - 1, capacity) * entry
    for back in range(2, length + 1):
        older = ring + _place(head + length - back, capacity) * entry
        _merge(older + 8, newer + 8, counts, sums, peaks, lanes)
        newer = older


@numba.njit(**COMPILE)
def _with_room(arena, free, group, entry_words):
    """The ring has room for one more entry afterwards; a ring that moves starts at place 0."""
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    if length < capacity:
        return
    larger = 1 if capacity == 0 else capacity + max(1, capacity // 2)
    moved = allocate(arena, free, larger * entry_words)
    if capacity != 0:
        ring = get_i64(group + RING)
        for index in range(length):
            source = ring + _place(head + index, capacity) * entry_words
            _copy(arena + 8 * (moved + index * entry_words), arena + 8 * source, entry_words)
        release(arena, free, ring, capacity * entry_words)
    set_i64(group + RING, moved)
    set_i64(group + SHAPE, _pack(0, length, front, larger))


@numba.njit(**COMPILE)
def _drop_older_than(arena, group, counts, sums, peaks, lanes, oldest):
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    while length > 0 and get_i64(ring + head * entry) < oldest:
        if front == 0:
            _turn(ring, head, length, capacity, counts, sums, peaks, lanes)
            front = length
            _clear(group + LANES + 8 * lanes, lanes)
        head = _place(head + 1, capacity)
        length -= 1
        front -= 1
    set_i64(group + SHAPE, _pack(head, length, front, capacity))


@numba.njit(**COMPILE)
def _push_current(arena, free, group, counts, sums, peaks, lanes):
    current, back = group + LANES, group + LANES + 8 * lanes
    empty = True
    for lane in range(lanes):
        if get_i64(current + 8 * lane) != 0:
            empty = False
    if empty:
        return
    _with_room(arena, free, group, lanes + 1)
    shape = get_i64(group + SHAPE)
    head, length, capacity = shape & _F16, (shape >> 16) & _F16, shape >> 48
    entry = arena + 8 * (get_i64(group + RING) + _place(head + length, capacity) * (lanes + 1))
    set_i64(entry, get_i64(group + START))
    _copy(entry + 8, current, lanes)
    _merge(back, current, counts, sums, peaks, lanes)
    _clear(current, lanes)
    set_i64(group + SHAPE, shape + (1 << 16))


@numba.njit(**COMPILE)
def advance(arena, free, group, counts, sums, peaks, lanes, tile, window, now):
    """Make the tile that holds ``now`` the current one; ``now`` is not older than the current tile."""
    start = tile_start(now, tile)
    oldest = start - window
    if get_i64(group + START) < oldest:
        clear_group(arena, free, group, lanes)
    else:
        _drop_older_than(arena, group, counts, sums, peaks, lanes, oldest)
        _push_current(arena, free, group, counts, sums, peaks, lanes)
    set_i64(group + START, start)


@numba.njit(inline="always", **COMPILE)
def read_current(arena, group, counts, sums, peaks, lanes, totals):
    """Write the window as of the current tile into ``totals`` (an address, a word a lane)."""
    current, back = group + LANES, group + LANES + 8 * lanes
    shape = get_i64(group + SHAPE)
    if (shape >> 32) & _F16:
        front = arena + 8 * (get_i64(group + RING) + (shape & _F16) * (lanes + 1) + 1)
        for lane in range(counts):
            word = 8 * lane
            set_i64(totals + word, get_i64(front + word) + get_i64(back + word) + get_i64(current + word))
        for lane in range(counts, counts + sums):
            word = 8 * lane
            set_f64(totals + word, (get_f64(front + word) + get_f64(back + word)) + get_f64(current + word))
        for lane in range(counts + sums, counts + sums + peaks):
            word = 8 * lane
            set_i64(totals + word, get_i64(front + word))
            keep_peak(totals + word, get_i64(back + word))
            keep_peak(totals + word, get_i64(current + word))
        for lane in range(counts + sums + peaks, lanes, 3):
            word = 8 * lane
            _copy(totals + word, front + word, 3)
            _merge_moments(totals + word, back + word)
            _merge_moments(totals + word, current + word)
    else:
        for lane in range(counts):
            word = 8 * lane
            set_i64(totals + word, get_i64(back + word) + get_i64(current + word))
        for lane in range(counts, counts + sums):
            word = 8 * lane
            set_f64(totals + word, get_f64(back + word) + get_f64(current + word))
        for lane in range(counts + sums, counts + sums + peaks):
            word = 8 * lane
            set_i64(totals + word, get_i64(back + word))
            keep_peak(totals + word, get_i64(current + word))
        for lane in range(counts + sums + peaks, lanes, 3):
            word = 8 * lane
            _copy(totals + word, back + word, 3)
            _merge_moments(totals + word, current + word)


@numba.njit(**COMPILE)
def read_later(arena, group, counts, sums, peaks, lanes, tile, window, now, totals):
    """As `read_current` once ``now`` has come, and nothing is changed: what a late event sees."""
    oldest = tile_start(now, tile) - window
    _clear(totals, lanes)
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    if get_i64(group + START) >= oldest:
        _merge(totals, group + LANES, counts, sums, peaks, lanes)
    index = length - 1
    while index >= front:
        place = ring + _place(head + index, capacity) * entry
        if get_i64(place) >= oldest:
            _merge(totals, place + 8, counts, sums, peaks, lanes)
        index -= 1
    for index in range(front):
        place = ring + _place(head + index, capacity) * entry
        if get_i64(place) >= oldest:
            _merge(totals, place + 8, counts, sums, peaks, lanes)
            return


@numba.njit(**COMPILE)
def _insert(arena, free, group, lanes, index, start):
    """Make place ``index`` a new tile; inside the front it takes over the aggregate behind it."""
    _with_room(arena, free, group, lanes + 1)
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    for later in range(length, index, -1):
        source = ring + _place(head + later - 1, capacity) * entry
        _copy(ring + _place(head + later, capacity) * entry, source, lanes + 1)
    place = ring + _place(head + index, capacity) * entry
    set_i64(place, start)
    if index < front:
        front += 1
        behind = index + 1
        if behind < front:
            _copy(place + 8, ring + _place(head + behind, capacity) * entry + 8, lanes)
        else:
            _clear(place + 8, lanes)
    else:
        _clear(place + 8, lanes)
    set_i64(group + SHAPE, _pack(head, length + 1, front, capacity))


@numba.njit(**COMPILE)
def past_tile(arena, free, group, lanes, tile, window, time):
    """Index of the ring's entry for the tile that holds ``time``, made if need be.

    -1 if that tile has left the window already.
    """
    start = tile_start(time, tile)
    if start < get_i64(group + START) - window:
        return -1
    shape = get_i64(group + SHAPE)
    head, length, capacity = shape & _F16, (shape >> 16) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    index = length
    while index > 0:
        held = get_i64(ring + _place(head + index - 1, capacity) * entry)
        if held == start:
            return index - 1
        if held < start:
            break
        index -= 1
    _insert(arena, free, group, lanes, index, start)
    return index


@numba.njit(**COMPILE)
def fold_into_past(arena, group, words, index, lane, sort, value):
    """One event more in the tile at ``index``, and in every aggregate that holds it."""
    shape = get_i64(group + SHAPE)
    head, front, capacity = shape & _F16, (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (words + 1)
    first = 0 if index < front else index
    for held in range(first, index + 1):
        fold_into_lane(ring + _place(head + held, capacity) * entry + 8 + 8 * lane, sort, value)
    if index >= front:
        fold_into_lane(group + LANES + 8 * (words + lane), sort, value)

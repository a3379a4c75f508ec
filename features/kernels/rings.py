"""Sawtooth windows over tiles: one group of lanes per key and (window, tile), O(1) amortised an event.

A *group* is a run of words in the key's slot::

    start | ring | shape | current lanes ... | back lanes ...

``start`` is where the current tile starts (ms, a multiple of the tile). Older tiles that hold anything
stand in a ring in the arena, oldest first, as entries ``tile start | lanes ...``; ``shape`` packs the
ring's head, length, front and capacity, 16 bits each. A lane is a count (``int64``) or a sum
(``float64``); the counts come first.

The ring is a two-stack queue (Tangwongsan, Hirzel, Schneider: *Low-Latency Sliding-Window Aggregation
in Worst-Case Constant Time*, 2017): its first ``front`` entries hold the aggregate from themselves to
the end of the front, the others hold their own tile, and the back lanes hold the sum of those. So a
window is ``front[head] + back + current``: nothing is ever subtracted, and an old tile leaves by moving
the head. When the front is used up, the back is turned into a front, newest to oldest.
"""

import numba

from features.kernels import COMPILE
from features.kernels.arena import allocate, release
from features.kernels.memory import get_f64, get_i64, set_f64, set_i64

START, RING, SHAPE, LANES = 0, 8, 16, 24
"""Byte offsets inside a group."""

GROUP_WORDS = 3
"""Words of a group before its lanes; then two words a lane."""

MAX_TILES = 20_000
"""Most tiles in one window; a ring that grew by half has to fit 15 bits."""

_F16 = 0xFFFF


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


@numba.njit(**COMPILE)
def _add_lanes(target, source, counts, sums):
    """Add what stands in ``source`` before what stands in ``target``, lane by lane."""
    for lane in range(counts):
        set_i64(target + 8 * lane, get_i64(source + 8 * lane) + get_i64(target + 8 * lane))
    for lane in range(counts, counts + sums):
        set_f64(target + 8 * lane, get_f64(source + 8 * lane) + get_f64(target + 8 * lane))


@numba.njit(inline="always", **COMPILE)
def _clear(address, words):
    for word in range(words):
        set_i64(address + 8 * word, 0)


@numba.njit(inline="always", **COMPILE)
def _copy(target, source, words):
    for word in range(words):
        set_i64(target + 8 * word, get_i64(source + 8 * word))


@numba.njit(**COMPILE)
def clear_group(arena, free, group, lanes):
    """Forget everything that the group holds."""
    ring = get_i64(group + RING)
    if ring != 0:
        release(arena, free, ring, (get_i64(group + SHAPE) >> 48) * (lanes + 1))
    _clear(group + RING, 2 + 2 * lanes)


@numba.njit(**COMPILE)
def _turn(ring, head, length, capacity, counts, sums):
    """Make every entry hold the aggregate from itself to the newest one."""
    entry = 8 * (counts + sums + 1)
    newer = ring + _place(head + length - 1, capacity) * entry
    for back in range(2, length + 1):
        older = ring + _place(head + length - back, capacity) * entry
        for lane in range(1, counts + 1):
            set_i64(older + 8 * lane, get_i64(older + 8 * lane) + get_i64(newer + 8 * lane))
        for lane in range(counts + 1, counts + sums + 1):
            set_f64(older + 8 * lane, get_f64(older + 8 * lane) + get_f64(newer + 8 * lane))
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
def _drop_older_than(arena, group, counts, sums, oldest):
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (counts + sums + 1)
    while length > 0 and get_i64(ring + head * entry) < oldest:
        if front == 0:
            _turn(ring, head, length, capacity, counts, sums)
            front = length
            _clear(group + LANES + 8 * (counts + sums), counts + sums)
        head = _place(head + 1, capacity)
        length -= 1
        front -= 1
    set_i64(group + SHAPE, _pack(head, length, front, capacity))


@numba.njit(**COMPILE)
def _push_current(arena, free, group, counts, sums):
    lanes = counts + sums
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
    for lane in range(counts):
        set_i64(back + 8 * lane, get_i64(back + 8 * lane) + get_i64(current + 8 * lane))
    for lane in range(counts, lanes):
        set_f64(back + 8 * lane, get_f64(back + 8 * lane) + get_f64(current + 8 * lane))
    _clear(current, lanes)
    set_i64(group + SHAPE, shape + (1 << 16))


@numba.njit(**COMPILE)
def advance(arena, free, group, counts, sums, tile, window, now):
    """Make the tile that holds ``now`` the current one; ``now`` is not older than the current tile."""
    start = tile_start(now, tile)
    oldest = start - window
    if get_i64(group + START) < oldest:
        clear_group(arena, free, group, counts + sums)
    else:
        _drop_older_than(arena, group, counts, sums, oldest)
        _push_current(arena, free, group, counts, sums)
    set_i64(group + START, start)


@numba.njit(inline="always", **COMPILE)
def read_current(arena, group, counts, sums, totals):
    """Write the window as of the current tile into ``totals`` (an address, a word a lane)."""
    lanes = counts + sums
    current, back = group + LANES, group + LANES + 8 * lanes
    shape = get_i64(group + SHAPE)
    if (shape >> 32) & _F16:
        front = arena + 8 * (get_i64(group + RING) + (shape & _F16) * (lanes + 1) + 1)
        for lane in range(counts):
            word = 8 * lane
            set_i64(totals + word, get_i64(front + word) + get_i64(back + word) + get_i64(current + word))
        for lane in range(counts, lanes):
            word = 8 * lane
            set_f64(totals + word, (get_f64(front + word) + get_f64(back + word)) + get_f64(current + word))
    else:
        for lane in range(counts):
            word = 8 * lane
            set_i64(totals + word, get_i64(back + word) + get_i64(current + word))
        for lane in range(counts, lanes):
            word = 8 * lane
            set_f64(totals + word, get_f64(back + word) + get_f64(current + word))


@numba.njit(**COMPILE)
def read_later(arena, group, counts, sums, tile, window, now, totals):
    """As `read_current` once ``now`` has come, and nothing is changed: what a late event sees."""
    lanes = counts + sums
    oldest = tile_start(now, tile) - window
    _clear(totals, lanes)
    shape = get_i64(group + SHAPE)
    head, length = shape & _F16, (shape >> 16) & _F16
    front, capacity = (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    if get_i64(group + START) >= oldest:
        _add_lanes(totals, group + LANES, counts, sums)
    index = length - 1
    while index >= front:
        place = ring + _place(head + index, capacity) * entry
        if get_i64(place) >= oldest:
            _add_lanes(totals, place + 8, counts, sums)
        index -= 1
    for index in range(front):
        place = ring + _place(head + index, capacity) * entry
        if get_i64(place) >= oldest:
            _add_lanes(totals, place + 8, counts, sums)
            return


@numba.njit(**COMPILE)
def _insert(arena, free, group, counts, sums, index, start):
    """Make place ``index`` a new tile; inside the front it takes over the aggregate behind it."""
    lanes = counts + sums
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
def past_tile(arena, free, group, counts, sums, tile, window, time):
    """Index of the ring's entry for the tile that holds ``time``, made if need be.

    -1 if that tile has left the window already.
    """
    start = tile_start(time, tile)
    if start < get_i64(group + START) - window:
        return -1
    shape = get_i64(group + SHAPE)
    head, length, capacity = shape & _F16, (shape >> 16) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (counts + sums + 1)
    index = length
    while index > 0:
        held = get_i64(ring + _place(head + index - 1, capacity) * entry)
        if held == start:
            return index - 1
        if held < start:
            break
        index -= 1
    _insert(arena, free, group, counts, sums, index, start)
    return index


@numba.njit(**COMPILE)
def add_count_to_past(arena, group, lanes, index, lane):
    """One event more in the tile at ``index``, and in every aggregate that holds it."""
    shape = get_i64(group + SHAPE)
    head, front, capacity = shape & _F16, (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    first = 0 if index < front else index
    for held in range(first, index + 1):
        word = ring + _place(head + held, capacity) * entry + 8 + 8 * lane
        set_i64(word, get_i64(word) + 1)
    if index >= front:
        word = group + LANES + 8 * (lanes + lane)
        set_i64(word, get_i64(word) + 1)


@numba.njit(**COMPILE)
def add_value_to_past(arena, group, lanes, index, lane, value):
    """``value`` more in the tile at ``index``, and in every aggregate that holds it."""
    shape = get_i64(group + SHAPE)
    head, front, capacity = shape & _F16, (shape >> 32) & _F16, shape >> 48
    ring, entry = arena + 8 * get_i64(group + RING), 8 * (lanes + 1)
    first = 0 if index < front else index
    for held in range(first, index + 1):
        word = ring + _place(head + held, capacity) * entry + 8 + 8 * lane
        set_f64(word, get_f64(word) + value)
    if index >= front:
        word = group + LANES + 8 * (lanes + lane)
        set_f64(word, get_f64(word) + value)

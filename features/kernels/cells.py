"""Cells: what a key keeps outside the tiles of its windows, each a few words of its slot.

======================  =====================================================================
sort                    words
======================  =====================================================================
`NEWEST_EVENT`          time, value of the newest event by (event time, log order)
`OLDEST_EVENT`          time, value of the oldest
`EVERY_ONE`             time, number of all events
`DECAYED`               newest time, sum of values, sum of weights, both as of that time
`NEWEST_FEW`            number held, then time, value of each, oldest first
`DISTINCT`              block, entries of `features.kernels.distinct`
`QUANTILE`              block, entries of `features.kernels.quantile`
======================  =====================================================================
"""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.arena import release
from features.kernels.decay import decay
from features.kernels.distinct import add_distinct, ask_for_place, ask_for_queue, drop_older_than
from features.kernels.memory import bits_of, get_f64, get_i64, prefetch, set_f64, set_i64
from features.kernels.quantile import add_value, ask_for_entries, ask_for_run, forget_older_than
from features.kernels.slots import NEVER

NEWEST_EVENT, OLDEST_EVENT, EVERY_ONE, DECAYED, NEWEST_FEW, DISTINCT, QUANTILE = range(7)

BLOCK_SORTS = frozenset({DISTINCT, QUANTILE})
"""Those that keep a block in the arena, whose first word has its words in the lower half."""


def cell_words(sort: int, size: int) -> int:
    """Words of a cell; ``size`` is how many `NEWEST_FEW` keeps."""
    return {DECAYED: 3, NEWEST_FEW: 1 + 2 * size}.get(sort, 2)


@numba.njit(inline="always", **COMPILE)
def block_size(block):
    """Words of a block."""
    return get_i64(block) & 0xFFFFFFFF


@numba.njit(inline="always", **COMPILE)
def clear_cell(arena, free, cell, sort):
    """Forget everything that it holds."""
    if sort <= DECAYED:
        set_i64(cell, NEVER)
    elif sort == NEWEST_FEW:
        set_i64(cell, 0)
    else:
        if get_i64(cell) != 0:
            release(arena, free, get_i64(cell), block_size(arena + 8 * get_i64(cell)))
        set_i64(cell, 0)
        set_i64(cell + 8, 0)


@numba.njit(inline="always", **COMPILE)
def ask_for_block(arena, cell, sort):
    """Ask early for the first words of a block."""
    if sort >= DISTINCT:
        prefetch(arena + 8 * get_i64(cell))
        prefetch(arena + 8 * get_i64(cell) + 64)


@numba.njit(inline="always", **COMPILE)
def ask_for_more(arena, cell, sort):
    """Ask early for what they lead to, once they have come."""
    if sort >= DISTINCT and get_i64(cell) != 0:
        if sort == DISTINCT:
            ask_for_queue(arena + 8 * get_i64(cell))
        else:
            ask_for_entries(arena + 8 * get_i64(cell))


@numba.njit(inline="always", **COMPILE)
def ask_for_value(arena, cell, sort, value):
    """Ask early for where a value will stand, once that has come as well."""
    if sort >= DISTINCT and get_i64(cell) != 0:
        if sort == DISTINCT:
            ask_for_place(arena + 8 * get_i64(cell), bits_of(value))
        else:
            ask_for_run(arena + 8 * get_i64(cell), value)


@numba.njit(**COMPILE)
def _fold_decayed(cell, half_life, time, value):
    if not np.isfinite(value):
        return
    held = get_i64(cell)
    if held == NEVER:
        set_i64(cell, time)
        set_f64(cell + 8, value)
        set_f64(cell + 16, 1.0)
    elif time >= held:
        left = decay(time - held, half_life)
        set_i64(cell, time)
        set_f64(cell + 8, get_f64(cell + 8) * left + value)
        set_f64(cell + 16, get_f64(cell + 16) * left + 1.0)
    else:
        weight = decay(held - time, half_life)
        set_f64(cell + 8, get_f64(cell + 8) + value * weight)
        set_f64(cell + 16, get_f64(cell + 16) + weight)


@numba.njit(**COMPILE)
def _fold_newest_few(cell, size, time, value):
    held = get_i64(cell)
    place = held
    while place > 0 and get_i64(cell + 8 + 16 * (place - 1)) > time:
        place -= 1
    if held < size:
        set_i64(cell, held + 1)
        for i in range(held, place, -1):
            set_i64(cell + 8 + 16 * i, get_i64(cell + 8 + 16 * (i - 1)))
            set_i64(cell + 16 + 16 * i, get_i64(cell + 16 + 16 * (i - 1)))
    elif place == 0:
        return
    else:
        place -= 1
        for i in range(place):
            set_i64(cell + 8 + 16 * i, get_i64(cell + 8 + 16 * (i + 1)))
            set_i64(cell + 16 + 16 * i, get_i64(cell + 16 + 16 * (i + 1)))
    set_i64(cell + 8 + 16 * place, time)
    set_f64(cell + 16 + 16 * place, value)


@numba.njit(**COMPILE)
def _fold_block(arena, free, cell, sort, tile, tiles, time, now, value):
    """Into the tile of its own time, if that is still in the window."""
    newest = now // tile
    oldest, number = newest - tiles, newest if time == now else time // tile
    if sort == DISTINCT:
        drop_older_than(arena, cell, oldest)
        if number >= oldest:
            add_distinct(arena, free, cell, tiles, oldest, number, bits_of(value))
    else:
        forget_older_than(arena, cell, oldest)
        if number >= oldest:
            add_value(arena, free, cell, number, value)


@numba.njit(inline="always", **COMPILE)
def fold_into_cell(arena, free, cell, sort, size, tile, tiles, time, now, value):
    """One event more; the log decides between equal times."""
    if sort <= EVERY_ONE:
        held = get_i64(cell)
        if sort == EVERY_ONE:
            set_i64(cell + 8, 1 if held == NEVER else get_i64(cell + 8) + 1)
            set_i64(cell, time)
        elif held == NEVER or (time < held if sort == OLDEST_EVENT else time >= held):
            set_i64(cell, time)
            set_f64(cell + 8, value)
    elif sort == DECAYED:
        _fold_decayed(cell, size, time, value)
    elif sort == NEWEST_FEW:
        _fold_newest_few(cell, size, time, value)
    else:
        _fold_block(arena, free, cell, sort, tile, tiles, time, now, value)

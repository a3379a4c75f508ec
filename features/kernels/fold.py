"""The generic kernel: one loop over a slice's events, driven by descriptor tables.

Per event, in this order: expiry, read as of ``now = max(event time, newest)``, fold (or fold, then read
with ``include_current``). A late event is only read. What to read and fold stands in five tables, rows
of ``int64`` that `features.plan` writes; their columns are named here.
"""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.cells import ask_for_block, ask_for_more, ask_for_value, clear_cell, fold_into_cell
from features.kernels.distinct import read_distinct
from features.kernels.memory import get_f64, get_i64, prefetch, set_i64
from features.kernels.quantile import read_quantile
from features.kernels.rings import (
    COUNT_LANE,
    LANES,
    NO_LANE,
    RING,
    SHAPE,
    START,
    advance,
    clear_group,
    fold_into_lane,
    fold_into_past,
    number_at_peak,
    past_tile,
    read_current,
    read_later,
    tile_start,
)
from features.kernels.slots import FREE, KEY, NEVER, NEWEST, SWEEP_AT, USED_SLOTS, forget_key

TILE, WINDOW, GROUP_AT, COUNTS, SUMS, PEAKS, WORDS, FIRST_LANE = range(8)
"""Columns of ``groups``: ms, ms, byte offset in the slot, lanes of each sort, words of all, index of its first lane."""
LANE_MASK, LANE_VALUE, LANE_SORT = range(3)
"""Columns of ``lanes``: row of ``masks`` (-1: every event), row of ``values``, a sort of `features.kernels.rings`."""
CELL_MASK, CELL_VALUE, CELL_AT, CELL_SORT, CELL_SIZE, CELL_TILE, CELL_TILES = range(7)
"""Columns of ``cells``: row of ``masks``, row of ``values`` (-1: only the time), byte offset in the slot, a sort of
`features.kernels.cells`, how many it keeps or its half-life in ms, ms of a tile, tiles of the window."""
OPERATION, LEFT, RIGHT, COLUMN = range(4)
"""Columns of ``outputs``: one of the operations below, its lanes or cell (or a parameter), column of the block."""
FILL_MASK, FILL_WHERE, FILL_VALUE, FILL_CELL = range(4)
"""Columns of ``fills``: rows of ``masks`` and ``values`` that a cell's value stands in for where they are missing,
and the row of ``masks`` (-1: every event) of those that take part if it does."""
GROUP_COLUMNS, LANE_COLUMNS, CELL_COLUMNS, OUTPUT_COLUMNS, FILL_COLUMNS = 8, 3, 7, 4, 4
(COUNT, SUM, QUOTIENT, SHARE, HIGHEST, LOWEST, DEVIATION, LAST, SINCE, LAST_ID, EVER, LAG, WEIGHTED_MEAN, DIFFERENT,
 RANKED) = range(15)  # fmt: skip
"""Operations on lanes: a count, a sum, sum / count, count / count, a peak, a trough, a standard deviation; on cells: a
value, its age in s, its id, a number of events, the oldest of a full few, a mean, different values, a quantile."""
TTL, MAX_LATE, SLOT_BYTES, INCLUDE_CURRENT = range(4)
"""Items of ``rules``: ms (-1: keys never expire), ms, bytes, 0 or 1."""

MISSING_ID = np.int64(np.iinfo(np.int64).min)
"""The category id of a missing value."""


@numba.njit(**COMPILE)
def _clear_slot(head, arena, free, groups, cells):
    set_i64(head + NEWEST, NEVER)
    for g in range(groups.shape[0]):
        clear_group(arena, free, head + groups[g, GROUP_AT], groups[g, WORDS])
    for c in range(cells.shape[0]):
        clear_cell(arena, free, head + cells[c, CELL_AT], cells[c, CELL_SORT])


@numba.njit(inline="always", **COMPILE)
def _has_expired(newest, time, watermark, ttl, max_late):
    if newest == NEVER or ttl < 0:
        return False
    return time - newest > ttl or watermark - newest > ttl + max_late


@numba.njit(inline="always", **COMPILE)
def _advance(head, arena, free, groups, newest, now):
    for g in range(groups.shape[0]):
        group, tile = head + groups[g, GROUP_AT], groups[g, TILE]
        if newest == NEVER:
            set_i64(group + START, tile_start(now, tile))
        elif now - get_i64(group + START) >= tile:
            advance(
                arena, free, group, groups[g, COUNTS], groups[g, SUMS], groups[g, PEAKS], groups[g, WORDS], tile, groups[g, WINDOW], now
            )  # fmt: skip


@numba.njit(inline="always", **COMPILE)
def _fold_past(group, arena, free, groups, g, lanes, i, time, masks, values):
    """The event's tile is not the current one: update it where it stands."""
    words, index = groups[g, WORDS], -2
    for k in range(words):
        lane = groups[g, FIRST_LANE] + k
        mask, sort = lanes[lane, LANE_MASK], lanes[lane, LANE_SORT]
        if sort != NO_LANE and (mask < 0 or masks[mask, i]):
            if index == -2:
                index = past_tile(arena, free, group, words, groups[g, TILE], groups[g, WINDOW], time)
            if index == -1:
                return
            value = values[lanes[lane, LANE_VALUE], i] if sort != COUNT_LANE else 0.0
            fold_into_past(arena, group, words, index, k, sort, value)


@numba.njit(inline="always", **COMPILE)
def _fill(head, fills, cells, i, masks, values):
    """What the key's newest value stands in for; the event has none."""
    for f in range(fills.shape[0]):
        where, cell = fills[f, FILL_WHERE], head + cells[fills[f, FILL_CELL], CELL_AT]
        if masks[fills[f, FILL_MASK], i] == 0 and (where < 0 or masks[where, i]) and get_i64(cell) != NEVER:
            masks[fills[f, FILL_MASK], i] = 1
            values[fills[f, FILL_VALUE], i] = get_f64(cell + 8)


@numba.njit(inline="always", **COMPILE)
def _fold(head, arena, free, groups, lanes, cells, fills, i, time, now, masks, values):
    _fill(head, fills, cells, i, masks, values)
    for g in range(groups.shape[0]):
        group = head + groups[g, GROUP_AT]
        if time < get_i64(group + START):
            _fold_past(group, arena, free, groups, g, lanes, i, time, masks, values)
            continue
        for k in range(groups[g, WORDS]):
            lane = groups[g, FIRST_LANE] + k
            mask, sort = lanes[lane, LANE_MASK], lanes[lane, LANE_SORT]
            if mask < 0 or masks[mask, i]:
                value = values[lanes[lane, LANE_VALUE], i] if sort != COUNT_LANE else 0.0
                fold_into_lane(group + LANES + 8 * k, sort, value)
    for c in range(cells.shape[0]):
        mask, row = cells[c, CELL_MASK], cells[c, CELL_VALUE]
        if mask < 0 or masks[mask, i]:
            fold_into_cell(
                arena, free, head + cells[c, CELL_AT], cells[c, CELL_SORT], cells[c, CELL_SIZE], cells[c, CELL_TILE],
                cells[c, CELL_TILES], time, now, values[row, i] if row >= 0 else 0.0,
            )  # fmt: skip


@numba.njit(inline="always", **COMPILE)
def _read_lanes(operation, left, right):
    """An operation on lanes, given their addresses: its result, and whether there is one."""
    if operation == COUNT:
        return np.float64(get_i64(left)), True
    if operation == SUM:
        return get_f64(left), True
    if operation == QUOTIENT:
        events = get_i64(right)
        return (get_f64(left) / events if events > 0 else 0.0), events > 0
    if operation == SHARE:
        events = get_i64(right)
        return (get_i64(left) / events if events > 0 else 0.0), events > 0
    if operation == DEVIATION:
        number = get_f64(left)
        return (np.sqrt(get_f64(left + 16) / number) if number > 0.0 else 0.0), number > 0.0
    peak = get_i64(left)
    return (number_at_peak(peak, operation == LOWEST) if peak != 0 else 0.0), peak != 0


@numba.njit(**COMPILE)
def _read_cell(arena, cell, operation, size, tile, tiles, parameter, now, is_late):
    """An operation on a cell: its result, and whether there is one."""
    if operation == DIFFERENT:
        return read_distinct(arena, cell, now // tile - tiles, is_late), True
    if operation == RANKED:
        return read_quantile(arena, cell, now // tile - tiles, is_late, parameter)
    held = get_i64(cell)
    if operation == LAG:
        return get_f64(cell + 16), held == size
    if held == NEVER:
        return 0.0, operation == EVER
    if operation == SINCE:
        return (now - held) / 1000.0, True
    if operation == EVER:
        return np.float64(get_i64(cell + 8)), True
    if operation == WEIGHTED_MEAN:
        return get_f64(cell + 8) / get_f64(cell + 16), True
    return get_f64(cell + 8), True


@numba.njit(inline="always", **COMPILE)
def _write_row(head, arena, totals, cells, outputs, missing, now, is_late, row, block, ids):
    for f in range(outputs.shape[0]):
        operation, left = outputs[f, OPERATION], outputs[f, LEFT]
        right, column = outputs[f, RIGHT], outputs[f, COLUMN]
        if operation < LAST:
            result, found = _read_lanes(operation, totals + 8 * left, totals + 8 * right)
        elif operation == LAST_ID:
            cell = head + cells[left, CELL_AT]
            ids[row, column] = get_i64(cell + 8) if get_i64(cell) != NEVER else MISSING_ID
            continue
        else:
            result, found = _read_cell(
                arena, head + cells[left, CELL_AT], operation, cells[left, CELL_SIZE], cells[left, CELL_TILE],
                cells[left, CELL_TILES], right, now, is_late,
            )  # fmt: skip
        block[row, column] = np.float32(result if found else missing[f])


@numba.njit(inline="always", **COMPILE)
def _write_missing(outputs, missing, row, block, ids):
    """What an event without a key reads: every value is missing."""
    for f in range(outputs.shape[0]):
        column = outputs[f, COLUMN]
        if outputs[f, OPERATION] == LAST_ID:
            ids[row, column] = MISSING_ID
        else:
            block[row, column] = np.float32(missing[f])


@numba.njit(inline="always", **COMPILE)
def _prefetch_ahead(i, n, slots, heads, arena, groups, cells, masks, values, slot_bytes):
    """Ask early for the slots of the events to come, then for the ends of their rings and, step by step, their blocks."""
    if i + 12 < n and slots[i + 12] >= 0:
        head = heads + slots[i + 12] * slot_bytes
        for line in range(0, slot_bytes, 64):
            prefetch(head + line)
    if i + 5 < n and slots[i + 5] >= 0:
        head = heads + slots[i + 5] * slot_bytes
        for g in range(groups.shape[0]):
            group = head + groups[g, GROUP_AT]
            ring, shape = get_i64(group + RING), get_i64(group + SHAPE)
            if ring != 0:
                words = groups[g, WORDS] + 1
                first, length = shape & 0xFFFF, (shape >> 16) & 0xFFFF
                next_free, capacity = first + length, shape >> 48
                if next_free >= capacity:
                    next_free -= capacity
                prefetch(arena + 8 * (ring + first * words))
                prefetch(arena + 8 * (ring + next_free * words))
    for c in range(cells.shape[0]):
        at, sort, mask, row = (
            cells[c, CELL_AT],
            cells[c, CELL_SORT],
            cells[c, CELL_MASK],
            cells[c, CELL_VALUE],
        )
        if i + 8 < n and slots[i + 8] >= 0:
            ask_for_block(arena, heads + slots[i + 8] * slot_bytes + at, sort)
        if i + 5 < n and slots[i + 5] >= 0:
            ask_for_more(arena, heads + slots[i + 5] * slot_bytes + at, sort)
        if i + 2 < n and slots[i + 2] >= 0 and (mask < 0 or masks[mask, i + 2]) and row >= 0:
            ask_for_value(arena, heads + slots[i + 2] * slot_bytes + at, sort, values[row, i + 2])


@numba.njit(**COMPILE)
def fold_slice(
    slots, times, watermarks, rows, masks, values,
    heads, arena, free, groups, lanes, cells, outputs, fills, missing, rules, totals,
    block, ids,
):  # fmt: skip
    """Read and fold ``n`` events of one partition, in log order, into ``block`` and ``ids``.

    Args:
        slots: ``(n,) int64``, -1 for a null key.
        times: ``(n,) int64`` event times, ms.
        watermarks: ``(n,) int64`` running maximum of the partition's event times, this one included.
        rows: ``(n,) int64`` row of ``block`` and ``ids`` that the event fills, or -1.
        masks: ``(masks, n) uint8`` which events take part where; written where a value is filled in.
        values: ``(values, n) float64``, the same.
        heads: Address of the slots.
        arena: Address of the arena.
        free: Address of the arena's free lists.
        groups: Descriptor table.
        lanes: Descriptor table.
        cells: Descriptor table.
        outputs: Descriptor table.
        fills: Descriptor table.
        missing: ``(outputs,) float64`` what stands for a missing value.
        rules: ``TTL, MAX_LATE, SLOT_BYTES, INCLUDE_CURRENT``.
        totals: Address of scratch, a word a lane.
        block: ``(rows, columns) float32``, written.
        ids: ``(rows, columns) int64``, written.
    """
    n, slot_bytes = slots.size, rules[SLOT_BYTES]
    for i in range(n):
        _prefetch_ahead(i, n, slots, heads, arena, groups, cells, masks, values, slot_bytes)
        row, time = rows[i], times[i]
        if slots[i] < 0:
            if row >= 0:
                _write_missing(outputs, missing, row, block, ids)
            continue
        head = heads + slots[i] * slot_bytes
        newest = get_i64(head + NEWEST)
        if _has_expired(newest, time, watermarks[i], rules[TTL], rules[MAX_LATE]):
            _clear_slot(head, arena, free, groups, cells)
            newest = NEVER
        elif newest == NEVER:
            for c in range(cells.shape[0]):
                clear_cell(arena, free, head + cells[c, CELL_AT], cells[c, CELL_SORT])
        now = max(time, newest)
        is_late = time < watermarks[i] - rules[MAX_LATE]
        if is_late:
            if row < 0:
                continue
            for g in range(groups.shape[0]):
                read_later(
                    arena, head + groups[g, GROUP_AT], groups[g, COUNTS], groups[g, SUMS], groups[g, PEAKS], groups[g, WORDS],
                    groups[g, TILE], groups[g, WINDOW], now, totals + 8 * groups[g, FIRST_LANE],
                )  # fmt: skip
            _write_row(head, arena, totals, cells, outputs, missing, now, True, row, block, ids)
            continue
        _advance(head, arena, free, groups, newest, now)
        set_i64(head + NEWEST, now)
        if rules[INCLUDE_CURRENT]:
            _fold(head, arena, free, groups, lanes, cells, fills, i, time, now, masks, values)
        if row >= 0:
            for g in range(groups.shape[0]):
                group = head + groups[g, GROUP_AT]
                read_current(
                    arena, group, groups[g, COUNTS], groups[g, SUMS], groups[g, PEAKS], groups[g, WORDS],
                    totals + 8 * groups[g, FIRST_LANE],
                )  # fmt: skip
            _write_row(head, arena, totals, cells, outputs, missing, now, False, row, block, ids)
        if not rules[INCLUDE_CURRENT]:
            _fold(head, arena, free, groups, lanes, cells, fills, i, time, now, masks, values)


@numba.njit(**COMPILE)
def sweep(heads, arena, free, directory, counters, marks, groups, cells, rules, watermark, budget):
    """Free up to ``budget`` looked-at slots whose key has expired for every event to come."""
    slot_bytes, used = rules[SLOT_BYTES], get_i64(counters + USED_SLOTS)
    at = get_i64(counters + SWEEP_AT)
    for _ in range(min(budget, used)):
        at = 0 if at >= used else at
        head = heads + at * slot_bytes
        if get_i64(head + KEY) != FREE:
            newest = get_i64(head + NEWEST)
            expired = rules[TTL] >= 0 and watermark - newest > rules[TTL] + rules[MAX_LATE]
            if newest == NEVER or expired:
                _clear_slot(head, arena, free, groups, cells)
                forget_key(heads, slot_bytes, arena, free, directory, counters, marks, at)
        at += 1
    set_i64(counters + SWEEP_AT, at)

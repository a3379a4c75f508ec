"""The generic kernel: one loop over a slice's events, driven by descriptor tables.

Per event, in this order: expiry, read as of ``now = max(event time, newest)``, fold (or fold, then read
with ``include_current``). A late event is only read. What to read and fold stands in four tables, rows
of ``int64`` that `features.plan` writes; their columns are named here.
"""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.memory import get_f64, get_i64, prefetch, set_f64, set_i64
from features.kernels.rings import (
    LANES,
    RING,
    SHAPE,
    START,
    add_count_to_past,
    add_to_moments,
    add_to_moments_in_past,
    add_value_to_past,
    advance,
    clear_group,
    keep_peak,
    keep_peak_in_past,
    number_at_peak,
    past_tile,
    peak_of,
    read_current,
    read_later,
    tile_start,
)
from features.kernels.slots import FREE, KEY, NEVER, NEWEST, SWEEP_AT, USED_SLOTS, forget_key

TILE, WINDOW, GROUP_AT, COUNTS, SUMS, PEAKS, WORDS, FIRST_LANE = range(8)
"""Columns of ``groups``: ms, ms, byte offset in the slot, lanes of each sort, words of all, index of its first lane."""
LANE_MASK, LANE_VALUE, LANE_IS_LOWEST = range(3)
"""Columns of ``lanes``: row of ``masks`` (-1: every event), row of ``values`` (-1 for a count), which peak."""
CELL_MASK, CELL_VALUE, CELL_AT, CELL_SORT = range(4)
"""Columns of ``cells``: row of ``masks``, row of ``values`` (-1: only the time), byte offset in the slot, a sort."""
NEWEST_EVENT, OLDEST_EVENT, EVERY_ONE = range(3)
"""Sorts of cells: of the newest event, of the oldest, a count of all."""
OPERATION, LEFT, RIGHT, COLUMN = range(4)
"""Columns of ``outputs``: one of the operations below, its lanes or cell, column of the block."""
COUNT, SUM, QUOTIENT, SHARE, LAST, SINCE, LAST_ID, HIGHEST, LOWEST, EVER, DEVIATION = range(11)
"""Operations: a count, a sum, sum / count, count / count, a cell's value, its age in s, its id, a peak, a trough,
a cell's count, a standard deviation."""
TTL, MAX_LATE, SLOT_BYTES, INCLUDE_CURRENT = range(4)
"""Items of ``rules``: ms (-1: keys never expire), ms, bytes, 0 or 1."""

CELL_WORDS = 2
MISSING_ID = np.int64(np.iinfo(np.int64).min)
"""The category id of a missing value."""


@numba.njit(**COMPILE)
def _clear_slot(head, arena, free, groups, cells):
    set_i64(head + NEWEST, NEVER)
    for g in range(groups.shape[0]):
        clear_group(arena, free, head + groups[g, GROUP_AT], groups[g, WORDS])
    for c in range(cells.shape[0]):
        set_i64(head + cells[c, CELL_AT], NEVER)


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
    counts, sums, lanes_ = groups[g, COUNTS], groups[g, SUMS], groups[g, WORDS]
    index = -2
    for k in range(lanes_):
        lane = groups[g, FIRST_LANE] + k
        mask = lanes[lane, LANE_MASK]
        if mask < 0 or masks[mask, i]:
            if index == -2:
                index = past_tile(arena, free, group, lanes_, groups[g, TILE], groups[g, WINDOW], time)
            if index == -1:
                return
            if k < counts:
                add_count_to_past(arena, group, lanes_, index, k)
            elif k < counts + sums:
                add_value_to_past(arena, group, lanes_, index, k, values[lanes[lane, LANE_VALUE], i])
            elif k < counts + sums + groups[g, PEAKS]:
                peak = peak_of(values[lanes[lane, LANE_VALUE], i], lanes[lane, LANE_IS_LOWEST])
                keep_peak_in_past(arena, group, lanes_, index, k, peak)
            elif (k - counts - sums - groups[g, PEAKS]) % 3 == 0:
                add_to_moments_in_past(arena, group, lanes_, index, k, values[lanes[lane, LANE_VALUE], i])


@numba.njit(inline="always", **COMPILE)
def _fold_cell(cell, sort, time, row, i, values):
    """The log decides between equal times."""
    held = get_i64(cell)
    if sort == EVERY_ONE:
        set_i64(cell + 8, 1 if held == NEVER else get_i64(cell + 8) + 1)
        set_i64(cell, time)
    elif held == NEVER or (time < held if sort == OLDEST_EVENT else time >= held):
        set_i64(cell, time)
        if row >= 0:
            set_f64(cell + 8, values[row, i])


@numba.njit(inline="always", **COMPILE)
def _fold(head, arena, free, groups, lanes, cells, i, time, masks, values):
    for g in range(groups.shape[0]):
        group = head + groups[g, GROUP_AT]
        if time < get_i64(group + START):
            _fold_past(group, arena, free, groups, g, lanes, i, time, masks, values)
            continue
        for k in range(groups[g, COUNTS]):
            mask = lanes[groups[g, FIRST_LANE] + k, LANE_MASK]
            if mask < 0 or masks[mask, i]:
                word = group + LANES + 8 * k
                set_i64(word, get_i64(word) + 1)
        for k in range(groups[g, COUNTS], groups[g, COUNTS] + groups[g, SUMS]):
            lane = groups[g, FIRST_LANE] + k
            mask = lanes[lane, LANE_MASK]
            if mask < 0 or masks[mask, i]:
                word = group + LANES + 8 * k
                set_f64(word, get_f64(word) + values[lanes[lane, LANE_VALUE], i])
        moments = groups[g, COUNTS] + groups[g, SUMS] + groups[g, PEAKS]
        for k in range(groups[g, COUNTS] + groups[g, SUMS], moments):
            lane = groups[g, FIRST_LANE] + k
            mask = lanes[lane, LANE_MASK]
            if mask < 0 or masks[mask, i]:
                peak = peak_of(values[lanes[lane, LANE_VALUE], i], lanes[lane, LANE_IS_LOWEST])
                keep_peak(group + LANES + 8 * k, peak)
        for k in range(moments, groups[g, WORDS], 3):
            lane = groups[g, FIRST_LANE] + k
            mask = lanes[lane, LANE_MASK]
            if mask < 0 or masks[mask, i]:
                add_to_moments(group + LANES + 8 * k, values[lanes[lane, LANE_VALUE], i])
    for c in range(cells.shape[0]):
        cell, mask = head + cells[c, CELL_AT], cells[c, CELL_MASK]
        if mask < 0 or masks[mask, i]:
            _fold_cell(cell, cells[c, CELL_SORT], time, cells[c, CELL_VALUE], i, values)


@numba.njit(inline="always", **COMPILE)
def _write_row(head, groups_totals, cells, outputs, fills, now, row, block, ids):
    for f in range(outputs.shape[0]):
        operation, left = outputs[f, OPERATION], outputs[f, LEFT]
        right, column = outputs[f, RIGHT], outputs[f, COLUMN]
        result, found = 0.0, True
        if operation == COUNT:
            result = np.float64(get_i64(groups_totals + 8 * left))
        elif operation == SUM:
            result = get_f64(groups_totals + 8 * left)
        elif operation == QUOTIENT or operation == SHARE:
            events = get_i64(groups_totals + 8 * right)
            found = events > 0
            if found and operation == QUOTIENT:
                result = get_f64(groups_totals + 8 * left) / events
            elif found:
                result = get_i64(groups_totals + 8 * left) / events
        elif operation == HIGHEST or operation == LOWEST:
            peak = get_i64(groups_totals + 8 * left)
            found = peak != 0
            if found:
                result = number_at_peak(peak, operation == LOWEST)
        elif operation == DEVIATION:
            number = get_f64(groups_totals + 8 * left)
            found = number > 0.0
            if found:
                result = np.sqrt(get_f64(groups_totals + 8 * left + 16) / number)
        else:
            cell = head + cells[left, CELL_AT]
            time = get_i64(cell)
            found = time != NEVER
            if operation == LAST_ID:
                ids[row, column] = get_i64(cell + 8) if found else MISSING_ID
                continue
            if found and operation == SINCE:
                result = (now - time) / 1000.0
            elif operation == EVER:
                result, found = np.float64(get_i64(cell + 8)) if found else 0.0, True
            elif found:
                result = get_f64(cell + 8)
        block[row, column] = np.float32(result if found else fills[f])


@numba.njit(inline="always", **COMPILE)
def _write_missing(outputs, fills, row, block, ids):
    """What an event without a key reads: every value is missing."""
    for f in range(outputs.shape[0]):
        column = outputs[f, COLUMN]
        if outputs[f, OPERATION] == LAST_ID:
            ids[row, column] = MISSING_ID
        else:
            block[row, column] = np.float32(fills[f])


@numba.njit(inline="always", **COMPILE)
def _prefetch_ahead(i, n, slots, heads, arena, groups, slot_bytes):
    """Ask early for the slots of the events to come, then for the ends of their rings."""
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
                words = groups[g, COUNTS] + groups[g, SUMS] + 1
                first, length = shape & 0xFFFF, (shape >> 16) & 0xFFFF
                next_free, capacity = first + length, shape >> 48
                if next_free >= capacity:
                    next_free -= capacity
                prefetch(arena + 8 * (ring + first * words))
                prefetch(arena + 8 * (ring + next_free * words))


@numba.njit(**COMPILE)
def fold_slice(
    slots, times, watermarks, rows, masks, values,
    heads, arena, free, groups, lanes, cells, outputs, fills, rules, totals,
    block, ids,
):  # fmt: skip
    """Read and fold ``n`` events of one partition, in log order, into ``block`` and ``ids``.

    Args:
        slots: ``(n,) int64``, -1 for a null key.
        times: ``(n,) int64`` event times, ms.
        watermarks: ``(n,) int64`` running maximum of the partition's event times, this one included.
        rows: ``(n,) int64`` row of ``block`` and ``ids`` that the event fills, or -1.
        masks: ``(masks, n) uint8`` where which lane or cell takes part.
        values: ``(values, n) float64``.
        heads: Address of the slots.
        arena: Address of the arena.
        free: Address of the arena's free lists.
        groups: Descriptor table.
        lanes: Descriptor table.
        cells: Descriptor table.
        outputs: Descriptor table.
        fills: ``(outputs,) float64`` what stands for missing.
        rules: ``TTL, MAX_LATE, SLOT_BYTES, INCLUDE_CURRENT``.
        totals: Address of scratch, a word a lane.
        block: ``(rows, columns) float32``, written.
        ids: ``(rows, columns) int64``, written.
    """
    n, slot_bytes = slots.size, rules[SLOT_BYTES]
    for i in range(n):
        _prefetch_ahead(i, n, slots, heads, arena, groups, slot_bytes)
        row, time = rows[i], times[i]
        if slots[i] < 0:
            if row >= 0:
                _write_missing(outputs, fills, row, block, ids)
            continue
        head = heads + slots[i] * slot_bytes
        newest = get_i64(head + NEWEST)
        if _has_expired(newest, time, watermarks[i], rules[TTL], rules[MAX_LATE]):
            _clear_slot(head, arena, free, groups, cells)
            newest = NEVER
        elif newest == NEVER:
            for c in range(cells.shape[0]):
                set_i64(head + cells[c, CELL_AT], NEVER)
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
            _write_row(head, totals, cells, outputs, fills, now, row, block, ids)
            continue
        _advance(head, arena, free, groups, newest, now)
        set_i64(head + NEWEST, now)
        if rules[INCLUDE_CURRENT]:
            _fold(head, arena, free, groups, lanes, cells, i, time, masks, values)
        if row >= 0:
            for g in range(groups.shape[0]):
                group = head + groups[g, GROUP_AT]
                read_current(
                    arena, group, groups[g, COUNTS], groups[g, SUMS], groups[g, PEAKS], groups[g, WORDS],
                    totals + 8 * groups[g, FIRST_LANE],
                )  # fmt: skip
            _write_row(head, totals, cells, outputs, fills, now, row, block, ids)
        if not rules[INCLUDE_CURRENT]:
            _fold(head, arena, free, groups, lanes, cells, i, time, masks, values)


@numba.njit(**COMPILE)
def sweep(heads, arena, free, directory, counters, groups, cells, rules, watermark, budget):
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
                forget_key(heads, slot_bytes, arena, free, directory, counters, at)
        at += 1
    set_i64(counters + SWEEP_AT, at)

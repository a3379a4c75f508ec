"""A slice through the engine in one call: expressions, rows, and the fold of every keyed feature set.

One call, because calls are what a small slice costs: each takes as long as dozens of events, and gives up
the interpreter lock. What lives no longer than the call is allocated here. A partition's states and the
tables of its feature sets come as addresses, a row for each set; their columns are named below.
"""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.arena import LARGEST
from features.kernels.fold import (
    CELL_COLUMNS,
    FILL_COLUMNS,
    GROUP_COLUMNS,
    LANE_COLUMNS,
    MISSING_ID,
    OUTPUT_COLUMNS,
    SLOT_BYTES,
    fold_slice,
    sweep,
)
from features.kernels.memory import as_pointer, get_i64
from features.kernels.prepare import choose_rows, run_program, write_inputs
from features.kernels.slots import LIVE_KEYS, SEGMENTS, USED_SLOTS, find_slots, mark_changed
from features.kernels.texts import join_keys, joined_bytes

(PARTS, IS_TEXT, PART_COUNT, GROUPS, GROUP_COUNT, LANES, LANE_COUNT, CELLS, CELL_COUNT, OUTPUTS, OUTPUT_COUNT,
 FILLS, FILL_COUNT, MISSING, RULES, WORDS_PER_EVENT, BLOCK_CELLS) = range(17)  # fmt: skip
"""Columns of ``sets``: addresses and lengths of the key's fields and of what `fold_slice` takes; words that the rings
of one event may take, and how many cells keep a block."""

(HEADS, HEADS_WORDS, HEADS_NEEDED, ARENA, ARENA_WORDS, ARENA_NEEDED, FREE_LISTS, DIRECTORY, COUNTERS,
 MARKS, TOTALS) = range(11)  # fmt: skip
"""Columns of ``states``: addresses; and of heads and arena the words there are, and are needed for a slice."""

SET_COLUMNS, STATE_COLUMNS = BLOCK_CELLS + 1, TOTALS + 1
NO_ROOM = -1
_SWEPT_A_KEY = 8
"""Slots looked at for each new key: what has expired takes at most about an eighth of the memory."""
_SIGNATURE = (
    "i8(i8[:,::1], i8[::1], i8[::1], i8[::1], i8[::1], i8, i8[:,::1], i8[:,::1], i8[:,::1],"
    " i8[:,::1], i8[:,::1], i8[::1], i8, i8[:,::1], u1[:,::1], i8[::1], i8[::1], i8[::1], f4[:,::1], i8[:,::1])"
)


@numba.njit(inline="always", **COMPILE)
def _integers(address, length):
    return numba.carray(as_pointer(address), length, np.int64)


@numba.njit(inline="always", **COMPILE)
def _table(address, rows, columns):
    return numba.carray(as_pointer(address), (rows, columns), np.int64)


@numba.njit(inline="always", **COMPILE)
def _key_fields(set_):
    count = set_[PART_COUNT]
    return _integers(set_[PARTS], count), numba.carray(as_pointer(set_[IS_TEXT]), count, np.uint8)


@numba.njit(**COMPILE)
def _is_room(sets, states, words, valid):
    """Whether every state has room, so that no fold ever runs out.

    Every event may be a new key that fills its rings, and may double a block, which has to be full before.
    """
    n, is_room = words.shape[1], True
    for s in range(sets.shape[0]):
        set_, state = sets[s], states[s]
        parts, is_text = _key_fields(set_)
        slot_words = _integers(set_[RULES], SLOT_BYTES + 1)[SLOT_BYTES] // 8
        keys = n + joined_bytes(words, valid, parts, is_text) // 8
        table = 8 * (get_i64(state[COUNTERS] + LIVE_KEYS) + n) + 32 * SEGMENTS
        state[HEADS_NEEDED] = (get_i64(state[COUNTERS] + USED_SLOTS) + n) * slot_words
        used, largest = get_i64(state[FREE_LISTS]), get_i64(state[FREE_LISTS] + 8 * LARGEST)
        blocks = min(4 * used, 4 * largest * n * set_[BLOCK_CELLS]) + 64 * n * set_[BLOCK_CELLS]
        state[ARENA_NEEDED] = used + keys + table + n * set_[WORDS_PER_EVENT] + blocks
        if state[HEADS_NEEDED] > state[HEADS_WORDS] or state[ARENA_NEEDED] > state[ARENA_WORDS]:
            is_room = False
    return is_room


@numba.njit(inline="always", **COMPILE)
def joined_room(set_, words, valid):
    """Bytes that the events' keys need if they do not stand in the buffer as they are, else 0."""
    parts, is_text = _key_fields(set_)
    if parts.size == 1 and is_text[0] != 0:
        return 0
    return joined_bytes(words, valid, parts, is_text) + 16


@numba.njit(**COMPILE)
def refer_to_keys(set_, base, words, valid, joined, refs):
    """Write references to the events' keys; returns the address that they refer to. See `joined_room`."""
    parts, is_text = _key_fields(set_)
    if joined.size:
        join_keys(base, words, valid, parts, is_text, joined.ctypes.data, refs)
        return joined.ctypes.data
    for i in range(refs.size):
        refs[i] = words[parts[0], i] if valid[parts[0], i] else -1
    return base


@numba.njit(inline="always", **COMPILE)
def groups_and_cells(set_):
    """Two of the descriptor tables."""
    groups = _table(set_[GROUPS], set_[GROUP_COUNT], GROUP_COLUMNS)
    return groups, _table(set_[CELLS], set_[CELL_COUNT], CELL_COLUMNS)


@numba.njit(inline="always", **COMPILE)
def rules_of(set_):
    """``(4,) int64``; see `features.kernels.fold`."""
    return _integers(set_[RULES], 4)


@numba.njit(**COMPILE)
def _fold_set(set_, state, base, words, valid, times, watermarks, rows, masks, values, block, ids):
    groups, cells = groups_and_cells(set_)
    lanes = _table(set_[LANES], set_[LANE_COUNT], LANE_COLUMNS)
    outputs = _table(set_[OUTPUTS], set_[OUTPUT_COUNT], OUTPUT_COLUMNS)
    fills = _table(set_[FILLS], set_[FILL_COUNT], FILL_COLUMNS)
    missing = numba.carray(as_pointer(set_[MISSING]), set_[OUTPUT_COUNT], np.float64)
    rules, n = rules_of(set_), times.size
    refs, hashes, slots = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    joined = np.empty(joined_room(set_, words, valid), np.uint8)
    keys = refer_to_keys(set_, base, words, valid, joined, refs)
    held = get_i64(state[COUNTERS] + LIVE_KEYS)
    find_slots(
        keys, refs, state[HEADS], rules[SLOT_BYTES], state[ARENA], state[FREE_LISTS], state[DIRECTORY],
        state[COUNTERS], hashes, slots,
    )  # fmt: skip
    new_keys = get_i64(state[COUNTERS] + LIVE_KEYS) - held
    mark_changed(slots, state[MARKS])
    fold_slice(
        slots, times, watermarks, rows, masks, values, state[HEADS], state[ARENA], state[FREE_LISTS],
        groups, lanes, cells, outputs, fills, missing, rules, state[TOTALS], block, ids,
    )  # fmt: skip
    sweep(
        state[HEADS], state[ARENA], state[FREE_LISTS], state[DIRECTORY], state[COUNTERS], state[MARKS], groups, cells,
        rules, watermarks[n - 1], 1 + n // 8 + _SWEPT_A_KEY * new_keys,
    )  # fmt: skip


@numba.njit(_SIGNATURE, **COMPILE)
def process_slice(
    program, constants, zones, starts, offsets, scored, mask_places, value_places, row_places,
    sets, states, clock, base, words, valid, times, heights, events, block, ids,
):  # fmt: skip
    """Read and fold the ``n`` events of a slice; returns how many rows there are, or `NO_ROOM` and nothing is done.

    Args:
        program: As `run_program` takes it.
        constants: The same.
        zones: The same.
        starts: The same.
        offsets: The same.
        scored: Place of the predicate that chooses events, -1 for every event.
        mask_places: As `write_inputs` takes it.
        value_places: The same.
        row_places: The same.
        sets: ``(sets, 17) int64`` the keyed feature sets.
        states: ``(sets, 11) int64`` their states.
        clock: ``(1,) int64`` the partition's watermark, ms, moved on.
        base: Address that texts refer to.
        words: ``(fields, n) int64`` the columns.
        valid: ``(fields, n) uint8`` the same.
        times: ``(n,) int64`` event times, ms.
        heights: ``(n,) int64`` what the watermark is at least, ms: the times, or more where other events were left out.
        events: ``(n,) int64``, written: the event of each row.
        block: ``(n, float columns) float32``, written as far as there are rows.
        ids: ``(n, category columns) int64``, the same.
    """
    n, places = times.size, program.shape[0]
    if not _is_room(sets, states, words, valid):
        return NO_ROOM
    data, known = np.empty((places, n), np.int64), np.empty((places, n), np.uint8)
    floats = data.view(np.float64)
    run_program(
        program, constants, zones, starts, offsets, MISSING_ID, base, words, valid, times, data, floats, known
    )
    watermarks, rows = np.empty(n, np.int64), np.empty(n, np.int64)
    count = choose_rows(scored, clock[0], data, known, heights, watermarks, rows, events)
    masks = np.empty((mask_places.shape[0], n), np.uint8)
    values = np.empty((value_places.shape[0], n), np.float64)
    write_inputs(
        mask_places, value_places, row_places, events[:count], data, floats, known, masks, values, block, ids
    )
    if n == 0:
        return count
    for s in range(sets.shape[0]):
        _fold_set(sets[s], states[s], base, words, valid, times, watermarks, rows, masks, values, block, ids)
    clock[0] = watermarks[n - 1]
    return count

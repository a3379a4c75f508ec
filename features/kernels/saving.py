"""A keyed state written out key by key while events go on changing it.

Each slot has a byte of marks. A saving begins by marking what it is of as `PENDING`: every key (`LIVE`), or those that
events came for since the last one began (`CHANGED`). Then keys are written a few at a time; before an event changes a
pending key that key is written first. So the saving holds the state as it was at its beginning, and nothing ever
waits for all of it. A key that expires while it is pending is left out: no event to come can see it.

A key is a *record* of words: ``words | key's length | key ... | slot ...``, then the entries of each of its rings,
oldest first, then the blocks of its cells. It does not depend on where anything stood in memory.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import LARGEST, allocate
from features.kernels.cells import DISTINCT, block_size, clear_cell
from features.kernels.fold import CELL_AT, CELL_SORT, GROUP_AT, SLOT_BYTES, WORDS
from features.kernels.hashing import xxh64
from features.kernels.memory import get_byte, get_i64, set_byte, set_i64
from features.kernels.process import (
    ARENA,
    COUNTERS,
    DIRECTORY,
    FREE_LISTS,
    HEADS,
    MARKS,
    groups_and_cells,
    joined_room,
    refer_to_keys,
    rules_of,
)
from features.kernels.rings import RING, SHAPE, clear_group
from features.kernels.slots import CHANGED, HASH, KEY, LIVE, PENDING, USED_SLOTS, find_key, take_key

AT, END, USED, KEYS, NEEDED = range(5)
"""Items of ``progress``: the next slot to look at and the one to stop before; words written to the buffer, records in it,
and words that the next record needs where it had no room."""

_RECORD, _KEY_LENGTH, _KEY = 0, 8, 16
_F16 = 0xFFFF
_ROWS = "i8[::1], i8[::1]"
"""A feature set and its state; see `features.kernels.process`."""


@numba.njit("i8(i8[::1], b1, i8[::1])", **COMPILE)
def begin_saving(state, everything, progress):
    """Mark what is to be saved; returns how many keys that is."""
    pending, marks = 0, state[MARKS]
    progress[:] = 0
    progress[END] = get_i64(state[COUNTERS] + USED_SLOTS)
    for slot in range(progress[END]):
        mark = get_byte(marks + slot)
        if mark & LIVE and (everything or mark & CHANGED):
            set_byte(marks + slot, types.uint8(LIVE | PENDING))
            pending += 1
        else:
            set_byte(marks + slot, types.uint8(mark & LIVE))
    return pending


@numba.njit(inline="always", **COMPILE)
def _copy(target, source, words):
    for word in range(words):
        set_i64(target + 8 * word, get_i64(source + 8 * word))


@numba.njit(**COMPILE)
def _record_words(head, arena, slot_bytes, groups, cells):
    key_bytes = get_i64(head + KEY) & 0xFFFFFF
    words = 2 + (key_bytes + 7) // 8 + slot_bytes // 8
    for g in range(groups.shape[0]):
        length = (get_i64(head + groups[g, GROUP_AT] + SHAPE) >> 16) & _F16
        words += length * (groups[g, WORDS] + 1)
    for c in range(cells.shape[0]):
        cell = head + cells[c, CELL_AT]
        if cells[c, CELL_SORT] >= DISTINCT and get_i64(cell) != 0:
            words += block_size(arena + 8 * get_i64(cell))
    return words


@numba.njit(**COMPILE)
def _write(head, arena, slot_bytes, groups, cells, words, at):
    held = get_i64(head + KEY)
    key, key_bytes = arena + 8 * (held >> 24), held & 0xFFFFFF
    set_i64(at + _RECORD, words)
    set_i64(at + _KEY_LENGTH, key_bytes)
    if key_bytes:
        set_i64(at + _KEY + 8 * ((key_bytes - 1) // 8), 0)
    for byte in range(key_bytes):
        set_byte(at + _KEY + byte, get_byte(key + byte))
    slot = at + _KEY + 8 * ((key_bytes + 7) // 8)
    _copy(slot, head, slot_bytes // 8)
    set_i64(slot + HASH, 0)
    set_i64(slot + KEY, 0)
    at = slot + slot_bytes
    for g in range(groups.shape[0]):
        group, entry_words = groups[g, GROUP_AT], groups[g, WORDS] + 1
        shape = get_i64(head + group + SHAPE)
        first, length, capacity = shape & _F16, (shape >> 16) & _F16, shape >> 48
        ring = arena + 8 * get_i64(head + group + RING)
        for index in range(length):
            place = first + index
            place -= capacity if place >= capacity else 0
            _copy(at, ring + 8 * place * entry_words, entry_words)
            at += 8 * entry_words
        set_i64(slot + group + RING, 0)
        set_i64(slot + group + SHAPE, (length << 16) | (((shape >> 32) & _F16) << 32) | (length << 48))
    for c in range(cells.shape[0]):
        cell = cells[c, CELL_AT]
        if cells[c, CELL_SORT] >= DISTINCT and get_i64(head + cell) != 0:
            block = arena + 8 * get_i64(head + cell)
            _copy(at, block, block_size(block))
            at += 8 * block_size(block)
            set_i64(slot + cell, 1)


@numba.njit(**COMPILE)
def _save(set_, state, slot, buffer, progress):
    """Write a pending slot; whether there was room."""
    groups, cells = groups_and_cells(set_)
    slot_bytes, marks = rules_of(set_)[SLOT_BYTES], state[MARKS]
    head, used = state[HEADS] + slot * slot_bytes, progress[USED]
    words = _record_words(head, state[ARENA], slot_bytes, groups, cells)
    if used + words > buffer.size:
        progress[NEEDED] = words
        return False
    _write(head, state[ARENA], slot_bytes, groups, cells, words, buffer.ctypes.data + 8 * used)
    set_byte(marks + slot, types.uint8(get_byte(marks + slot) & ~PENDING))
    progress[USED] = used + words
    progress[KEYS] += 1
    return True


@numba.njit(f"b1({_ROWS}, i8, i8[::1], i8[::1])", **COMPILE)
def save_some(set_, state, keys, buffer, progress):
    """Write up to ``keys`` pending slots into ``buffer``; False if the next one has no room."""
    saved = 0
    while progress[AT] < progress[END] and saved < keys:
        if get_byte(state[MARKS] + progress[AT]) & PENDING:
            if not _save(set_, state, progress[AT], buffer, progress):
                return False
            saved += 1
        progress[AT] += 1
    return True


@numba.njit(f"b1({_ROWS}, i8, i8[:,::1], u1[:,::1], i8[::1], i8[::1])", **COMPILE)
def save_before(set_, state, base, words, valid, buffer, progress):
    """Write those of a slice's keys that are pending; False if one has no room, and all may be asked for again."""
    refs, joined = np.empty(words.shape[1], np.int64), np.empty(joined_room(set_, words, valid), np.uint8)
    keys, slot_bytes = refer_to_keys(set_, base, words, valid, joined, refs), rules_of(set_)[SLOT_BYTES]
    for ref in refs:
        if ref >= 0:
            key, length = keys + (ref >> 24), ref & 0xFFFFFF
            hashed = types.int64(xxh64(key, length))
            slot = find_key(state[HEADS], slot_bytes, state[ARENA], state[DIRECTORY], hashed, key, length)
            is_pending = slot >= 0 and get_byte(state[MARKS] + slot) & PENDING != 0
            if is_pending and not _save(set_, state, slot, buffer, progress):
                return False
    return True


@numba.njit(**COMPILE)
def _cleared(set_, state, key, length):
    """The key's slot, with nothing in it."""
    groups, cells = groups_and_cells(set_)
    heads, arena, free, slot_bytes = state[HEADS], state[ARENA], state[FREE_LISTS], rules_of(set_)[SLOT_BYTES]
    hashed = types.int64(xxh64(key, length))
    slot = find_key(heads, slot_bytes, arena, state[DIRECTORY], hashed, key, length)
    if slot < 0:
        return take_key(
            heads, slot_bytes, arena, free, state[DIRECTORY], state[COUNTERS], hashed, key, length
        )
    for g in range(groups.shape[0]):
        clear_group(arena, free, heads + slot * slot_bytes + groups[g, GROUP_AT], groups[g, WORDS])
    for c in range(cells.shape[0]):
        clear_cell(arena, free, heads + slot * slot_bytes + cells[c, CELL_AT], cells[c, CELL_SORT])
    return slot


@numba.njit(**COMPILE)
def _load_blocks(set_, state, head, source):
    """Give a slot's rings and cells what they refer to."""
    groups, cells = groups_and_cells(set_)
    arena, free = state[ARENA], state[FREE_LISTS]
    for g in range(groups.shape[0]):
        group = head + groups[g, GROUP_AT]
        entries = (get_i64(group + SHAPE) >> 48) * (groups[g, WORDS] + 1)
        if entries:
            ring = allocate(arena, free, entries)
            _copy(arena + 8 * ring, source, entries)
            set_i64(group + RING, ring)
            source += 8 * entries
    for c in range(cells.shape[0]):
        cell = head + cells[c, CELL_AT]
        if cells[c, CELL_SORT] >= DISTINCT and get_i64(cell) != 0:
            size = block_size(source)
            block = allocate(arena, free, size)
            set_i64(free + 8 * LARGEST, max(get_i64(free + 8 * LARGEST), size))
            _copy(arena + 8 * block, source, size)
            set_i64(cell, block)
            source += 8 * size


@numba.njit(f"void({_ROWS}, i8, i8)", **COMPILE)
def load_records(set_, state, at, words):
    """Take over the keys of the records at an address, in place of what is held of them; there is room."""
    slot_bytes, end = rules_of(set_)[SLOT_BYTES], at + 8 * words
    while at < end:
        length = get_i64(at + _KEY_LENGTH)
        slot = _cleared(set_, state, at + _KEY, length)
        set_byte(state[MARKS] + slot, types.uint8(LIVE))
        head, source = state[HEADS] + slot * slot_bytes, at + _KEY + 8 * ((length + 7) // 8)
        hashed, key = get_i64(head + HASH), get_i64(head + KEY)
        _copy(head, source, slot_bytes // 8)
        set_i64(head + HASH, hashed)
        set_i64(head + KEY, key)
        _load_blocks(set_, state, head, source + slot_bytes)
        at += 8 * get_i64(at + _RECORD)

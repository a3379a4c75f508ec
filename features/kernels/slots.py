"""Entity keys (bytes) to dense slots: an exact hash table that grows without a long stall.

A slot is a run of words in ``heads``; its first three are ``newest | hash | key``: the newest event
time folded (`NEVER` if none), XXH64 of the key, and where the key's bytes lie in the arena
(offset << 24 | length). A free slot has `FREE` there, and the next free slot in ``hash``.

The table is 256 segments, chosen by the hash's top byte, each with linear probing at a load of at
most a half; a segment doubles by itself, so that a million keys never wait for one rehash. An entry
is the hash's upper half and slot + 1; 0 is empty.

Beside the slots lies a byte of ``marks`` for each; see `features.kernels.saving`.
"""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.arena import allocate, release
from features.kernels.hashing import xxh64
from features.kernels.memory import get_byte, get_i64, peek_u64, prefetch, set_byte, set_i64

NEWEST, HASH, KEY = 0, 8, 16
"""Byte offsets inside a slot."""
SLOT_WORDS = 3
NEVER = -(2**63)
FREE = -1

SEGMENTS = 256
DIRECTORY_WORDS = 3 * SEGMENTS
"""Per segment: offset in the arena, entries, entries in use."""
SMALLEST_SEGMENT = 8

USED_SLOTS, FREE_SLOT, LIVE_KEYS, SWEEP_AT = 0, 8, 16, 24
"""Byte offsets inside ``counters``: slots ever used, first free one + 1, keys held, next to sweep."""
COUNTER_WORDS = 4

LIVE, CHANGED, PENDING = 1, 2, 4
"""Marks of a slot: it holds a key; an event came for it since the last saving began; it is still to be saved."""

_UPPER = -(2**32)
_LOWER = 2**32 - 1


@numba.njit(**COMPILE)
def same_bytes(left, right, length):
    """Whether as many bytes at two addresses are equal."""
    done = 0
    while done + 8 <= length:
        if peek_u64(left + done) != peek_u64(right + done):
            return False
        done += 8
    while done < length:
        if get_byte(left + done) != get_byte(right + done):
            return False
        done += 1
    return True


@numba.njit(**COMPILE)
def _place_entry(arena, segment, entry, hashed):
    """Put ``entry`` into the first empty place from where ``hashed`` belongs."""
    base, mask = arena + 8 * get_i64(segment), get_i64(segment + 8) - 1
    at = hashed & mask
    while get_i64(base + 8 * at) != 0:
        at = (at + 1) & mask
    set_i64(base + 8 * at, entry)


@numba.njit(**COMPILE)
def _grow_segment(heads, slot_bytes, arena, free, segment):
    old, size = get_i64(segment), get_i64(segment + 8)
    larger = SMALLEST_SEGMENT if size == 0 else 2 * size
    moved = allocate(arena, free, larger)
    for at in range(larger):
        set_i64(arena + 8 * (moved + at), 0)
    set_i64(segment, moved)
    set_i64(segment + 8, larger)
    for at in range(size):
        entry = get_i64(arena + 8 * (old + at))
        if entry != 0:
            hashed = get_i64(heads + ((entry & _LOWER) - 1) * slot_bytes + HASH)
            _place_entry(arena, segment, entry, hashed)
    if size != 0:
        release(arena, free, old, size)


@numba.njit(**COMPILE)
def _take_slot(heads, slot_bytes, counters):
    slot = get_i64(counters + FREE_SLOT) - 1
    if slot >= 0:
        set_i64(counters + FREE_SLOT, get_i64(heads + slot * slot_bytes + HASH))
    else:
        slot = get_i64(counters + USED_SLOTS)
        set_i64(counters + USED_SLOTS, slot + 1)
    set_i64(counters + LIVE_KEYS, get_i64(counters + LIVE_KEYS) + 1)
    for word in range(slot_bytes // 8):
        set_i64(heads + slot * slot_bytes + 8 * word, 0)
    return slot


@numba.njit(**COMPILE)
def take_key(heads, slot_bytes, arena, free, directory, counters, hashed, key, length):
    """A slot for a new key, cleared but for `NEVER`."""
    segment = directory + 24 * ((hashed >> 56) & 0xFF)
    if 2 * get_i64(segment + 16) >= get_i64(segment + 8):
        _grow_segment(heads, slot_bytes, arena, free, segment)
    slot = _take_slot(heads, slot_bytes, counters)
    stored = allocate(arena, free, length // 8 + 1)
    for at in range(length):
        set_byte(arena + 8 * stored + at, get_byte(key + at))
    head = heads + slot * slot_bytes
    set_i64(head + NEWEST, NEVER)
    set_i64(head + HASH, hashed)
    set_i64(head + KEY, (stored << 24) | length)
    _place_entry(arena, segment, (hashed & _UPPER) | (slot + 1), hashed)
    set_i64(segment + 16, get_i64(segment + 16) + 1)
    return slot


@numba.njit(inline="always", **COMPILE)
def _is_key_of(heads, slot_bytes, arena, slot, key, length):
    held = get_i64(heads + slot * slot_bytes + KEY)
    return held & 0xFFFFFF == length and same_bytes(arena + 8 * (held >> 24), key, length)


@numba.njit(inline="always", **COMPILE)
def find_key(heads, slot_bytes, arena, directory, hashed, key, length):
    """The slot of a key, -1 for none."""
    segment = directory + 24 * ((hashed >> 56) & 0xFF)
    base, mask = arena + 8 * get_i64(segment), get_i64(segment + 8) - 1
    if mask < 0:
        return -1
    at = hashed & mask
    while True:
        entry = get_i64(base + 8 * at)
        if entry == 0:
            return -1
        if (entry ^ hashed) & _UPPER == 0:
            slot = (entry & _LOWER) - 1
            if _is_key_of(heads, slot_bytes, arena, slot, key, length):
                return slot
        at = (at + 1) & mask


@numba.njit(inline="always", **COMPILE)
def _candidate(arena, directory, hashed):
    """The first slot whose entry has the hash's upper half, -1 for none: nearly always the key's."""
    segment = directory + 24 * ((hashed >> 56) & 0xFF)
    base, mask = arena + 8 * get_i64(segment), get_i64(segment + 8) - 1
    if mask < 0:
        return -1
    at = hashed & mask
    while True:
        entry = get_i64(base + 8 * at)
        if entry == 0:
            return -1
        if (entry ^ hashed) & _UPPER == 0:
            return (entry & _LOWER) - 1
        at = (at + 1) & mask


@numba.njit(**COMPILE)
def find_slots(keys, refs, heads, slot_bytes, arena, free, directory, counters, hashes, slots):
    """The slot of every key, a new one where it has none; -1 where the key is null.

    ``refs`` holds ``offset << 24 | length`` from the address ``keys``, or -1; ``hashes`` is scratch. Table, slot and
    key are three places in memory, each known from the one before: asked for in turn, for the whole slice.
    """
    n = refs.size
    for i in range(n):
        ref = refs[i]
        if ref >= 0:
            hashed = types.int64(xxh64(keys + (ref >> 24), ref & 0xFFFFFF))
            hashes[i] = hashed
            segment = directory + 24 * ((hashed >> 56) & 0xFF)
            prefetch(arena + 8 * (get_i64(segment) + (hashed & (get_i64(segment + 8) - 1))))
    for i in range(n):
        slots[i] = _candidate(arena, directory, hashes[i]) if refs[i] >= 0 else -1
        if slots[i] >= 0:
            prefetch(heads + slots[i] * slot_bytes)
    for i in range(n):
        if slots[i] >= 0:
            prefetch(arena + 8 * (get_i64(heads + slots[i] * slot_bytes + KEY) >> 24))
    for i in range(n):
        ref = refs[i]
        if ref < 0:
            continue
        key, length, hashed = keys + (ref >> 24), ref & 0xFFFFFF, hashes[i]
        if slots[i] >= 0 and _is_key_of(heads, slot_bytes, arena, slots[i], key, length):
            continue
        slot = find_key(heads, slot_bytes, arena, directory, hashed, key, length)
        if slot < 0:
            slot = take_key(heads, slot_bytes, arena, free, directory, counters, hashed, key, length)
        slots[i] = slot


@numba.njit(**COMPILE)
def mark_changed(slots, marks):
    """An event came for each of these slots."""
    for slot in slots:
        if slot >= 0:
            set_byte(marks + slot, get_byte(marks + slot) | types.uint8(LIVE | CHANGED))


@numba.njit(**COMPILE)
def _remove_entry(heads, slot_bytes, arena, segment, slot, hashed):
    """Backward shift deletion (Knuth, TAOCP vol. 3, 6.4, algorithm R): no tombstones."""
    base, mask = arena + 8 * get_i64(segment), get_i64(segment + 8) - 1
    hole = hashed & mask
    while (get_i64(base + 8 * hole) & _LOWER) - 1 != slot:
        hole = (hole + 1) & mask
    at = hole
    while True:
        at = (at + 1) & mask
        entry = get_i64(base + 8 * at)
        if entry == 0:
            break
        home = get_i64(heads + ((entry & _LOWER) - 1) * slot_bytes + HASH) & mask
        if (at - home) & mask >= (at - hole) & mask:
            set_i64(base + 8 * hole, entry)
            hole = at
    set_i64(base + 8 * hole, 0)
    set_i64(segment + 16, get_i64(segment + 16) - 1)


@numba.njit(**COMPILE)
def forget_key(heads, slot_bytes, arena, free, directory, counters, marks, slot):
    """Free the slot, its key and its table entry; its groups were cleared before."""
    set_byte(marks + slot, 0)
    head = heads + slot * slot_bytes
    hashed, key = get_i64(head + HASH), get_i64(head + KEY)
    _remove_entry(heads, slot_bytes, arena, directory + 24 * ((hashed >> 56) & 0xFF), slot, hashed)
    release(arena, free, key >> 24, (key & 0xFFFFFF) // 8 + 1)
    set_i64(head + KEY, FREE)
    set_i64(head + HASH, get_i64(counters + FREE_SLOT))
    set_i64(counters + FREE_SLOT, slot + 1)
    set_i64(counters + LIVE_KEYS, get_i64(counters + LIVE_KEYS) - 1)

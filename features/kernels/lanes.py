"""Events of several partitions at once: split into lanes, each folded by itself, and their rows put together again."""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.hashing import xxh64

I = types.int64
_INT32S, _INT64S = (types.Array(each, 1, "C", readonly=True) for each in (types.int32, types.int64))
"""As Arrow hands them over."""
_OWN = types.int64[::1]
_CACHED_ROWS = 128
"""Rows that are turned into columns at a time: they stay in the nearest cache."""


@numba.njit(types.boolean(_INT32S, _INT64S, _OWN), **COMPILE)
def ascend(partitions, offsets, last):
    """Whether the offsets of each partition never fall; ``last`` holds the last one of each, moved on."""
    for i in range(offsets.size):
        if offsets[i] < last[partitions[i]]:
            return False
        last[partitions[i]] = offsets[i]
    return True


@numba.njit(types.void(_INT32S, _OWN, _OWN), **COMPILE)
def number_events(partitions, ends, offsets):
    """The offset of each event if they were published now; ``ends`` holds the end of each partition, moved on."""
    for i in range(offsets.size):
        offsets[i] = ends[partitions[i]]
        ends[partitions[i]] += 1


@numba.njit(types.void(_INT32S, _OWN, _OWN, _OWN), **COMPILE)
def follow_watermarks(partitions, times, watermarks, heights):
    """Where the watermark of its partition stands after each event; ``watermarks`` of the partitions are moved on."""
    for i in range(times.size):
        partition = partitions[i]
        watermarks[partition] = max(watermarks[partition], times[i])
        heights[i] = watermarks[partition]


@numba.njit("void(i8, i8[::1], u1[::1], b1, i4, i4[::1])", **COMPILE)
def choose_shards(base, words, valid, is_text, shards, chosen):
    """The shard of each key; a null key is on the first. The hash's upper half: slots use the others' bits."""
    for i in range(words.size):
        chosen[i] = 0
        if valid[i]:
            if is_text:
                hashed = xxh64(base + (words[i] >> 24), words[i] & 0xFFFFFF)
            else:
                hashed = types.uint64(words[i]) * types.uint64(0x9E3779B185EBCA87)
            chosen[i] = (hashed >> types.uint64(32)) % types.uint64(shards)


@numba.njit(types.void(_INT32S, _OWN, _OWN), **COMPILE)
def sort_by_lane(lanes, starts, order):
    """Indices of the events lane by lane, each lane's in order: a counting sort.

    Args:
        lanes: ``(n,) int32``.
        starts: ``(lanes + 1,) int64``, written: where each lane begins in ``order``.
        order: ``(n,) int64``, written.
    """
    starts[:] = 0
    for i in range(lanes.size):
        starts[lanes[i] + 1] += 1
    for lane in range(1, starts.size):
        starts[lane] += starts[lane - 1]
    for i in range(lanes.size):
        order[starts[lanes[i]]] = i
        starts[lanes[i]] += 1
    for lane in range(starts.size - 1, 0, -1):
        starts[lane] = starts[lane - 1]
    starts[0] = 0


@numba.njit("void(f4[:,::1], i8[:,::1], u8[::1], i8[::1], f4[:,::1], i8[:,::1], u8[::1])", **COMPILE)
def place_rows(block, ids, digests, places, floats, categories, placed):
    """Write rows into columns, each to its place.

    Args:
        block: ``(r, floats) float32``.
        ids: ``(r, categories) int64``.
        digests: ``(r,) uint64``.
        places: ``(r,) int64``.
        floats: ``(floats, rows) float32``, written at the places.
        categories: ``(categories, rows) int64``, the same.
        placed: ``(rows,) uint64``, the same.
    """
    for first in range(0, places.size, _CACHED_ROWS):
        last = min(first + _CACHED_ROWS, places.size)
        for column in range(block.shape[1]):
            for row in range(first, last):
                floats[column, places[row]] = block[row, column]
        for column in range(ids.shape[1]):
            for row in range(first, last):
                categories[column, places[row]] = ids[row, column]
    for row in range(places.size):
        placed[places[row]] = digests[row]


@numba.njit(types.void(_INT32S, types.int64, _OWN), **COMPILE)
def refer_short(ends, before, refs):
    """References to texts one behind the other, ``before`` added to where they stand; a null may have any."""
    for i in range(refs.size):
        refs[i] = ((I(ends[i]) + before) << 24) | (I(ends[i + 1]) - I(ends[i]))


@numba.njit(types.void(_INT64S, types.int64, _OWN), **COMPILE)
def refer_long(ends, before, refs):
    """The same, of texts whose ends take eight bytes."""
    for i in range(refs.size):
        refs[i] = ((ends[i] + before) << 24) | (ends[i + 1] - ends[i])

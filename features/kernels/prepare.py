"""What a slice is folded with, computed from its columns in one pass: expressions, masks, values, row features.

A program is a table of operations, operands first; each writes one row of ``data`` (``int64``, a float as
its bits) and of ``known``. Rows of the table: operation, operands ``a`` and ``b``, and two more whose
meaning is the operation's.
"""

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.hashing import xxh64
from features.kernels.times import days_from_civil

(FIELD, TEXT_ID, EVENT_TIME, CONSTANT, TO_FLOAT, TO_INTEGER, ADD, SUBTRACT, MULTIPLY, DIVIDE,
 LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL, AND, OR, NOT, IS_MISSING, TIME_PART, FILL_MISSING,
 HASHED) = range(23)  # fmt: skip
"""Operations. A comparison's ``c`` says whether it is of floats; a constant's and a field's ``a`` say which; what fills
is ``b``; how many codes there are, too."""

OPERATION, A, B, C = range(4)
"""Columns of a program."""

HOUR, MINUTE, MINUTE_OF_DAY, DAY_OF_WEEK, DAY_OF_MONTH, DAY_OF_YEAR, MONTH = range(7)
"""Parts of local time; a time part's ``b`` is one of these, its ``c`` the zone."""

_DAY, _HOUR, _MINUTE = 86_400_000, 3_600_000, 60_000


@numba.njit(inline="always", **COMPILE)
def _civil_from_days(days):
    """Year, month and day of days since 1970-01-01 (Hinnant, *chrono-compatible dates*)."""
    days += 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, of_year - (153 * shifted + 2) // 5 + 1


@numba.njit(**COMPILE)
def time_part(part, local):
    """A part of a local time in ms."""
    if part == DAY_OF_WEEK:
        return (local // _DAY + 3) % 7
    of_day = local % _DAY
    if part == HOUR:
        return of_day // _HOUR
    if part == MINUTE:
        return of_day % _HOUR // _MINUTE
    if part == MINUTE_OF_DAY:
        return of_day // _MINUTE
    days = local // _DAY
    year, month, day = _civil_from_days(days)
    if part == MONTH:
        return month
    if part == DAY_OF_MONTH:
        return day
    return days - days_from_civil(year, 1, 1) + 1


@numba.njit(**COMPILE)
def _local(time, zone, zones, starts, offsets):
    """A time on a zone's clock; ``zones[zone]`` is where its offsets begin."""
    low, high = zones[zone], zones[zone + 1] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if starts[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return time + offsets[low]


@numba.njit(**COMPILE)
def _calculate(operation, left, right, left_known, right_known, out, known):
    for i in range(out.size):
        a, b = left[i], right[i]
        if operation == ADD:
            result = a + b
        elif operation == SUBTRACT:
            result = a - b
        elif operation == MULTIPLY:
            result = a * b
        else:
            result = a / b
        out[i] = result
        known[i] = left_known[i] and right_known[i] and not np.isnan(result)


@numba.njit(**COMPILE)
def _compare(operation, left, right, left_known, right_known, out, known):
    for i in range(out.size):
        a, b = left[i], right[i]
        if operation == LESS:
            out[i] = a < b
        elif operation == LESS_EQUAL:
            out[i] = a <= b
        elif operation == GREATER:
            out[i] = a > b
        elif operation == GREATER_EQUAL:
            out[i] = a >= b
        elif operation == EQUAL:
            out[i] = a == b
        else:
            out[i] = a != b
        known[i] = left_known[i] and right_known[i]


@numba.njit(**COMPILE)
def _decide(decisive, left, right, left_known, right_known, out, known):
    """Kleene's ``or`` (decisive 1) and ``and`` (decisive 0)."""
    for i in range(out.size):
        is_settled = (left_known[i] and left[i] == decisive) or (right_known[i] and right[i] == decisive)
        out[i] = decisive if is_settled else 1 - decisive
        known[i] = is_settled or (left_known[i] and right_known[i])


@numba.njit(**COMPILE)
def _take_time_part(part, zone, zones, starts, offsets, times, times_known, out, known):
    for i in range(out.size):
        out[i] = time_part(part, _local(times[i], zone, zones, starts, offsets)) if times_known[i] else 0
        known[i] = times_known[i]


@numba.njit(**COMPILE)
def _hash_texts(base, refs, valid, missing, out, known):
    for i in range(out.size):
        out[i] = np.int64(xxh64(base + (refs[i] >> 24), refs[i] & 0xFFFFFF)) if valid[i] else missing
        known[i] = valid[i]


_RUN = (
    "void(i8[:,::1], i8[::1], i8[::1], i8[::1], i8[::1], i8, i8, i8[:,::1], u1[:,::1], i8[::1],"
    " i8[:,::1], f8[:,::1], u1[:,::1])"
)


@numba.njit(_RUN, **COMPILE)
def run_program(
    program, constants, zones, starts, offsets, missing, base, words, valid, times, data, floats, known
):
    """Run every operation over a slice of ``n`` events.

    Args:
        program: ``(places, 4) int64``: `OPERATION`, `A`, `B`, `C`.
        constants: ``(constants,) int64``, floats as their bits.
        zones: ``(zones + 1,) int64`` where each zone's offsets begin.
        starts: ``(k,) int64`` ms from which an offset holds.
        offsets: ``(k,) int64`` ms east of UTC.
        missing: The category id of a missing text.
        base: Address that texts refer to.
        words: ``(fields, n) int64`` columns.
        valid: ``(fields, n) uint8``.
        times: ``(n,) int64`` event times.
        data: ``(places, n) int64``, written.
        floats: The same memory as ``float64``.
        known: ``(places, n) uint8``, written.
    """
    for place in range(program.shape[0]):
        operation, a, b, c = program[place, 0], program[place, 1], program[place, 2], program[place, 3]
        if operation == FIELD:
            data[place] = words[a]
            known[place] = valid[a]
        elif operation == TEXT_ID:
            _hash_texts(base, words[a], valid[a], missing, data[place], known[place])
        elif operation == EVENT_TIME:
            data[place] = times
            known[place] = 1
        elif operation == CONSTANT:
            data[place] = constants[a]
            known[place] = 1
        elif operation == TO_FLOAT:
            for i in range(times.size):
                floats[place, i] = np.float64(data[a, i])
            known[place] = known[a]
        elif operation == TO_INTEGER:
            for i in range(times.size):
                data[place, i] = np.int64(np.floor(floats[a, i])) if known[a, i] else 0
            known[place] = known[a]
        elif operation <= DIVIDE:
            _calculate(operation, floats[a], floats[b], known[a], known[b], floats[place], known[place])
        elif operation <= NOT_EQUAL:
            if c:
                _compare(operation, floats[a], floats[b], known[a], known[b], data[place], known[place])
            else:
                _compare(operation, data[a], data[b], known[a], known[b], data[place], known[place])
        elif operation <= OR:
            _decide(
                np.int64(operation == OR), data[a], data[b], known[a], known[b], data[place], known[place]
            )
        elif operation == NOT:
            for i in range(times.size):
                data[place, i] = 1 - data[a, i]
            known[place] = known[a]
        elif operation == IS_MISSING:
            for i in range(times.size):
                data[place, i] = 1 - known[a, i]
            known[place] = 1
        elif operation == FILL_MISSING:
            for i in range(times.size):
                data[place, i] = data[a, i] if known[a, i] else data[b, i]
            known[place] = 1
        elif operation == HASHED:
            for i in range(times.size):
                data[place, i] = ((data[a, i] >> 32) & 0xFFFFFFFF) * b >> 32
            known[place] = known[a]
        else:
            _take_time_part(b, c, zones, starts, offsets, data[a], known[a], data[place], known[place])


@numba.njit(**COMPILE)
def choose_rows(scored, watermark, data, known, heights, watermarks, rows, events):
    """Which events get which row, and the running watermark; returns how many rows.

    Args:
        scored: Place of the predicate, -1 for every event.
        watermark: Of the partition before this slice.
        data: As `run_program` wrote it.
        known: As `run_program` wrote it.
        heights: ``(n,) int64`` event times, or more where other events of the partition were left out.
        watermarks: ``(n,) int64``, written: the running maximum of the heights, each one included.
        rows: ``(n,) int64``, written: the event's row, or -1.
        events: ``(n,) int64``, written as far as there are rows: the row's event.
    """
    count = 0
    for i in range(heights.size):
        watermark = max(watermark, heights[i])
        watermarks[i] = watermark
        if scored < 0 or (known[scored, i] and data[scored, i]):
            rows[i], events[count] = count, i
            count += 1
        else:
            rows[i] = -1
    return count


@numba.njit(**COMPILE)
def write_inputs(
    mask_places, value_places, row_places, events, data, floats, known, masks, values, block, ids
):
    """Masks and values for the fold, and the features of the events alone.

    Args:
        mask_places: ``(masks, 2) int64`` places of predicate and of the value that has to be there, or -1.
        value_places: ``(values, 2) int64`` place, and 1 if it holds a float or a category's bits.
        row_places: ``(columns, 3) int64`` place, column, and 0 for a float, 1 for an integer, 2 for an id.
        events: ``(rows,) int64`` the event of each row.
        data: As `run_program` wrote it.
        floats: The same memory as ``float64``.
        known: As `run_program` wrote it.
        masks: ``(masks, n) uint8``, written.
        values: ``(values, n) float64``, written.
        block: ``(rows, columns) float32``, written where a row feature stands.
        ids: ``(rows, columns) int64``, the same.
    """
    for m in range(mask_places.shape[0]):
        where, present = mask_places[m, 0], mask_places[m, 1]
        for i in range(masks.shape[1]):
            is_in = where < 0 or (known[where, i] and data[where, i])
            masks[m, i] = is_in and (present < 0 or known[present, i])
    for v in range(value_places.shape[0]):
        place = value_places[v, 0]
        for i in range(values.shape[1]):
            values[v, i] = floats[place, i] if value_places[v, 1] else np.float64(data[place, i])
    for r in range(row_places.shape[0]):
        place, column, kind = row_places[r, 0], row_places[r, 1], row_places[r, 2]
        for row in range(events.size):
            i = events[row]
            if kind == 2:
                ids[row, column] = data[place, i]
            elif not known[place, i]:
                block[row, column] = np.nan
            elif kind == 1:
                block[row, column] = np.float32(data[place, i])
            else:
                block[row, column] = np.float32(floats[place, i])

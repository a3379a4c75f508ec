"""Event times to milliseconds since the epoch."""

import numba
from numba import types

from features.kernels import COMPILE
from features.kernels.memory import get_byte

I = types.int64
EARLIEST, LATEST = -62_135_596_800_000, 253_402_300_799_999
"""0001-01-01 and the last millisecond of 9999; a time outside is unusable."""


@numba.njit(inline="always", **COMPILE)
def _number(at, digits):
    """The decimal of exactly ``digits`` digits, -1 if something else stands there."""
    number = I(0)
    for offset in range(digits):
        digit = I(get_byte(at + offset)) - 48
        if digit < 0 or digit > 9:
            return I(-1)
        number = number * 10 + digit
    return number


@numba.njit(inline="always", **COMPILE)
def days_from_civil(year, month, day):
    """Days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant, *chrono-compatible dates*)."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@numba.njit(inline="always", **COMPILE)
def _days_in_month(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@numba.njit(**COMPILE)
def _zone_minutes(at, end):
    """Minutes east of UTC that the text from ``at`` to ``end`` says; 9999 if it says nothing usable."""
    length = end - at
    if length == 0 or (length == 1 and (get_byte(at) == 90 or get_byte(at) == 122)):
        return I(0)
    sign = I(get_byte(at))
    if (sign != 43 and sign != 45) or (length != 6 and length != 5 and length != 3):
        return I(9999)
    hours, minutes = _number(at + 1, 2), I(0)
    if length == 6:
        minutes = _number(at + 4, 2) if get_byte(at + 3) == 58 else I(-1)
    elif length == 5:
        minutes = _number(at + 3, 2)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return I(9999)
    offset = hours * 60 + minutes
    return -offset if sign == 45 else offset


@numba.njit(**COMPILE)
def parse(at, length):
    """Milliseconds of ``YYYY-MM-DD[T ]hh:mm[:ss[.fraction]][zone]``, rounded down; ``LATEST + 1`` if unusable."""
    bad, end = I(LATEST + 1), at + length
    if length < 16 or get_byte(at + 4) != 45 or get_byte(at + 7) != 45 or get_byte(at + 13) != 58:
        return bad
    between = get_byte(at + 10)
    year, month, day = _number(at, 4), _number(at + 5, 2), _number(at + 8, 2)
    hour, minute, second, millis = _number(at + 11, 2), _number(at + 14, 2), I(0), I(0)
    if (between != 84 and between != 116 and between != 32) or year < 1 or month < 1 or month > 12:
        return bad
    if day < 1 or day > _days_in_month(year, month) or hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return bad
    at += 16
    if at + 3 <= end and get_byte(at) == 58:
        second = _number(at + 1, 2)
        if second < 0 or second > 59:
            return bad
        at += 3
        if at < end and (get_byte(at) == 46 or get_byte(at) == 44):
            at += 1
            scale = I(100)
            first = at
            while at < end and 48 <= get_byte(at) <= 57:
                millis += (I(get_byte(at)) - 48) * scale
                scale //= 10
                at += 1
            if at == first:
                return bad
    zone = _zone_minutes(at, end)
    if zone == 9999:
        return bad
    minutes = (days_from_civil(year, month, day) * 24 + hour) * 60 + minute - zone
    return (minutes * 60 + second) * 1000 + millis

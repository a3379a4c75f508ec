"""Rows to JSON texts in one buffer, driven by a template.

A template is a run of operations that are written one behind the other for each row: literal bytes, a
field of the event (a text quoted and escaped, or an integer), its time, its offset, a number, the row's
digest in hexadecimal, one of its features; and where a text ends, of which a row may have several. A
``float32`` is written with the fewest digits that read back to it. A stretch of a template may be left
out for all but a sample of keys.
"""

import numba
import numpy as np
from numba import types

from features.kernels import COMPILE
from features.kernels.digests import row_digest
from features.kernels.hashing import xxh64
from features.kernels.memory import get_byte, peek_u32, set_byte, set_i64

LITERAL, TEXT, INTEGER, NUMBER, TIME, OFFSET, DIGEST, END = range(8)
"""Operations: bytes, a text or integer field, a column of ``numbers``; the rest have no operand."""

FEATURE, CATEGORY, TEXT_SAMPLE, INTEGER_SAMPLE, SAMPLE_END = range(8, 13)
"""A column of ``block`` or ``ids``; where a stretch begins that is written for a sample of a key field's values, and
ends."""

HASHES = 1 << 63
"""A key is in the sample if its hash, halved, is under the sample's limit: of ``HASHES``, all are."""

DECIMAL_BYTES = 24
"""Most bytes of an integer, number or digest."""

ESCAPED_BYTES = 6
"""Most bytes of an escaped byte."""

POWERS = 10.0 ** np.arange(23)

I = types.int64
_SMALLEST, _LARGEST = 1e-10, 1e15
"""Between these, and for 0, a number is written here; others are left to the caller."""
_NAN, _MINUS_ZERO = 0x7FC00000, 0x80000000
"""Bits of a missing feature, and of the zero that reads back as another."""


@numba.njit(**COMPILE)
def _write_integer(at, number):
    if number < 0:
        set_byte(at, 45)
        at += 1
        last = I(-(number % -10))
        number = I(-((number + last) // 10))
        if number == 0:
            set_byte(at, 48 + last)
            return at + 1
        at = _write_integer_part(at, number)
        set_byte(at, 48 + last)
        return at + 1
    return _write_integer_part(at, number)


@numba.njit(**COMPILE)
def _write_integer_part(at, number):
    digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        digits += 1
    for place in range(digits - 1, -1, -1):
        set_byte(at + place, 48 + number % 10)
        number //= 10
    return at + digits


@numba.njit(**COMPILE)
def _write_digits(at, number, digits):
    """Exactly ``digits`` digits, zeros first."""
    for place in range(digits - 1, -1, -1):
        set_byte(at + place, 48 + number % 10)
        number //= 10
    return at + digits


@numba.njit(**COMPILE)
def _exponent(value):
    """The power of ten of the first digit of a value between `_SMALLEST` and `_LARGEST`."""
    exponent = I(np.floor(np.log10(value)))
    if exponent >= 0:
        if value < POWERS[exponent]:
            exponent -= 1
    elif value * POWERS[-exponent] < 1.0:
        exponent -= 1
    return exponent


@numba.njit(**COMPILE)
def _shortest(value, exponent):
    """Decimal digits and decimals of the shortest text: 6 to 9 digits, zeros at the end taken off."""
    single = np.float32(value)
    digits, decimals = I(0), I(0)
    for precision in range(6, 10):
        decimals = precision - 1 - exponent
        if decimals >= 0:
            digits = I(np.rint(value * POWERS[decimals]))
            back = np.float64(digits) / POWERS[decimals]
        else:
            digits = I(np.rint(value / POWERS[-decimals]))
            back = np.float64(digits) * POWERS[-decimals]
        if np.float32(back) == single:
            break
    while decimals > 0 and digits % 10 == 0:
        digits //= 10
        decimals -= 1
    return digits, decimals


@numba.njit(**COMPILE)
def _write_number(at, number):
    """Where the number's text ends; -1 if it is not finite or out of range."""
    if number == 0.0:
        set_byte(at, 48)
        set_byte(at + 1, 46)
        set_byte(at + 2, 48)
        return at + 3
    value = np.float64(abs(number))
    if not _SMALLEST <= value < _LARGEST:
        return I(-1)
    if number < 0:
        set_byte(at, 45)
        at += 1
    digits, decimals = _shortest(value, _exponent(value))
    if decimals <= 0:
        at = _write_integer_part(at, digits * I(POWERS[-decimals]))
        set_byte(at, 46)
        set_byte(at + 1, 48)
        return at + 2
    scale = I(POWERS[decimals])
    at = _write_integer_part(at, digits // scale)
    set_byte(at, 46)
    return _write_digits(at + 1, digits % scale, decimals)


@numba.njit(inline="always", **COMPILE)
def _hexadecimal(nibble):
    return 48 + nibble if nibble < 10 else 87 + nibble


@numba.njit(**COMPILE)
def _write_digest(at, digest):
    set_byte(at, 34)
    for place in range(16):
        set_byte(at + 16 - place, _hexadecimal(I(digest & types.uint64(15))))
        digest >>= types.uint64(4)
    set_byte(at + 17, 34)
    return at + 18


@numba.njit(**COMPILE)
def _write_feature(at, bits, number):
    """NaN as null; what has no plain decimal (infinite, -0, under 1e-10, from 1e15) as its bits: ``"0x7f800000"``."""
    if bits == _NAN:
        return _write_null(at)
    end = I(-1) if bits == _MINUS_ZERO else _write_number(at, number)
    if end >= 0:
        return end
    set_byte(at, 34)
    set_byte(at + 1, 48)
    set_byte(at + 2, 120)
    for place in range(8):
        set_byte(at + 10 - place, _hexadecimal(I(bits & 15)))
        bits >>= 4
    set_byte(at + 11, 34)
    return at + 12


@numba.njit(**COMPILE)
def _write_text(at, source, length):
    """Quoted, with the escapes of RFC 8259; UTF-8 passes as it is."""
    set_byte(at, 34)
    at += 1
    for place in range(length):
        byte = get_byte(source + place)
        if byte == 34 or byte == 92:
            set_byte(at, 92)
            set_byte(at + 1, byte)
            at += 2
        elif byte < 32:
            set_byte(at, 92)
            set_byte(at + 1, 117)
            set_byte(at + 2, 48)
            set_byte(at + 3, 48)
            set_byte(at + 4, _hexadecimal(I(byte) >> 4))
            set_byte(at + 5, _hexadecimal(I(byte) & 15))
            at += 6
        else:
            set_byte(at, byte)
            at += 1
    set_byte(at, 34)
    return at + 1


@numba.njit(**COMPILE)
def _write_null(at):
    set_byte(at, 110)
    set_byte(at + 1, 117)
    set_byte(at + 2, 108)
    set_byte(at + 3, 108)
    return at + 4


@numba.njit(inline="always", **COMPILE)
def _room(template, row_bytes, words, valid, events):
    """Most bytes that the texts can have."""
    room = row_bytes * events.size
    for operation in range(template.shape[0]):
        if template[operation, 0] == TEXT:
            field = template[operation, 1]
            for event in events:
                if valid[field, event]:
                    room += ESCAPED_BYTES * (words[field, event] & 0xFFFFFF)
    return room


_SIGNATURE = (
    "(i8[:,::1], i8, i8, i8, i8[:,::1], u1[:,::1], i8[::1], i8[::1], i8[::1], i8[::1],"
    " f4[:,::1], f4[:,::1], i8[:,::1])"
)


@numba.njit(_SIGNATURE, **COMPILE)
def emit_rows(
    template, literals, row_bytes, base, words, valid, times, positions, offsets, events, numbers, block, ids
):
    """Every row's texts, one behind the other.

    Args:
        template: ``(operations, 3) int64``: operation, then field or column and the limit of a sample, or offset and
            length of a literal.
        literals: Address of the literals.
        row_bytes: Most bytes of a row's texts, what is between the quotes of its text fields left out.
        base: Address that text fields refer to.
        words: ``(fields, n) int64`` of the events; see `features.columns.Columns`.
        valid: ``(fields, n) uint8``: 0 is null.
        times: ``(n,) int64``.
        positions: ``(n,) int64`` of the events' records.
        offsets: ``(records,) int64``.
        events: ``(r,) int64`` index of each row's event.
        numbers: ``(r, columns) float32``.
        block: ``(r, floats) float32`` and
        ids: ``(r, categories) int64``: the row, and what a digest is of.

    Returns:
        ``(bytes,) uint8`` texts, and ``(r · texts,) int64`` where each ends. A text with a number that can't be
        written here is void.
    """
    target = np.empty(_room(template, row_bytes, words, valid, events), np.uint8)
    ends = np.empty(events.size * (template[:, 0] == END).sum(), np.int64)
    start = target.ctypes.data
    at = first = start
    written, is_void = 0, False
    for row in range(events.size):
        event, is_skipped = events[row], False
        for operation in range(template.shape[0]):
            kind, column = template[operation, 0], template[operation, 1]
            if is_skipped:
                is_skipped = kind != SAMPLE_END
            elif kind == LITERAL:
                for place in range(template[operation, 2]):
                    set_byte(at + place, get_byte(literals + column + place))
                at += template[operation, 2]
            elif kind == TEXT:
                ref = words[column, event]
                at = (
                    _write_text(at, base + (ref >> 24), ref & 0xFFFFFF)
                    if valid[column, event]
                    else _write_null(at)
                )
            elif kind == INTEGER:
                at = _write_integer(at, words[column, event]) if valid[column, event] else _write_null(at)
            elif kind == NUMBER:
                end = _write_number(at, numbers[row, column])
                is_void = is_void or end < 0
                at = max(at, end)
            elif kind == TIME:
                at = _write_integer(at, times[event])
            elif kind == OFFSET:
                at = _write_integer(at, offsets[positions[event]])
            elif kind == DIGEST:
                at = _write_digest(at, row_digest(block, ids, row, at))
            elif kind == FEATURE:
                bits = I(peek_u32(block.ctypes.data + (row * block.shape[1] + column) * 4))
                at = _write_feature(at, bits, block[row, column])
            elif kind == CATEGORY:
                at = _write_integer(at, ids[row, column])
            elif kind == TEXT_SAMPLE or kind == INTEGER_SAMPLE:
                ref = words[column, event] if valid[column, event] else I(0)
                if kind == TEXT_SAMPLE:
                    key_hash = xxh64(base + (ref >> 24), ref & 0xFFFFFF)
                else:
                    set_i64(at, ref)
                    key_hash = xxh64(at, 8)
                is_skipped = I(key_hash >> types.uint64(1)) >= template[operation, 2]
            elif kind == END:
                at = first if is_void else at
                ends[written] = at - start
                first, written, is_void = at, written + 1, False
    return target[: at - start], ends

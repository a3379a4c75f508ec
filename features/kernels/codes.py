"""Category ids to the small codes that models embed, and rows to what a model takes of them."""

import numba
from numba import types

from features.kernels import COMPILE


@numba.njit(inline="always", **COMPILE)
def _code(known, codes, first, last, id_):
    """The code of an id among ``known[first:last]``, which rises; 0 if it is not there."""
    end = last
    while first < last:
        middle = (first + last) >> 1
        if known[middle] < id_:
            first = middle + 1
        else:
            last = middle
    return codes[first] if first < end and known[first] == id_ else 0


_ID_COLUMN = types.Array(types.int64, 1, "A", readonly=True)


@numba.njit(types.void(types.int64[::1], types.int64[::1], _ID_COLUMN, types.int64[::1]), **COMPILE)
def encode_ids(known, codes, ids, out):
    """Codes of ``(n,) int64`` ids.

    Args:
        known: ``(k,) int64`` ids, rising.
        codes: ``(k,) int64`` of each; an id that is not known gets 0.
        ids: ``(n,) int64``.
        out: ``(n,) int64``, written.
    """
    for row in range(out.size):
        out[row] = _code(known, codes, 0, known.size, ids[row])


_BLOCK, _ID_ROWS = (types.Array(dtype, 2, "A", readonly=True) for dtype in (types.float32, types.int64))
_SIGNATURES = [
    types.void(_BLOCK, _ID_ROWS, *[types.int64[::1]] * 4, dtype[:, ::1])
    for dtype in (types.float32, types.float64, types.int32, types.int64)
]


@numba.njit(_SIGNATURES, **COMPILE)
def gather_rows(block, ids, columns, known, codes, starts, out):
    """Copy columns of rows; the last row is repeated to the end of ``out``.

    Args:
        block: ``(n, floats) float32``.
        ids: ``(n, categories) int64``.
        columns: ``(columns,) int64``: a column of ``block``, or -1 - a column of ``ids``, copied as codes.
        known: ``int64`` known ids of each category, one behind the other, rising in each.
        codes: ``int64`` of each; an id that is not known gets 0.
        starts: ``(categories + 1,) int64`` where a category's ids start in ``known``.
        out: ``(rows, columns)``, ``rows`` at least ``n``, written.
    """
    rows = block.shape[0]
    for row in range(rows):
        for place in range(columns.size):
            column = columns[place]
            if column >= 0:
                out[row, place] = block[row, column]
            else:
                id_ = ids[row, -1 - column]
                out[row, place] = _code(known, codes, starts[-1 - column], starts[-column], id_)
    for row in range(rows, out.shape[0]):
        for place in range(columns.size):
            out[row, place] = out[rows - 1, place]

"""Two to a negative power, with the same bits on every processor.

``exp2`` of a math library may differ in the last bit between processors. Here a power is a table entry, correctly
rounded, times a polynomial of additions and multiplications alone, times an exact power of two; its relative error
is below 1e-15.
"""

from decimal import Decimal, localcontext

import numba
import numpy as np

from features.kernels import COMPILE
from features.kernels.memory import number_of

_STEPS = 64
_LAST = 1022
"""Half-lives after which nothing is left: 2**-1022 is the smallest normal number."""


def _rounded_powers() -> list[float]:
    with localcontext(prec=40):
        return [float(Decimal(2) ** (Decimal(-step) / _STEPS)) for step in range(_STEPS)]


_POWERS = np.array(_rounded_powers())
_LN2 = 0.6931471805599453


@numba.njit(**COMPILE)
def decay(age, half_life):
    """``2 ** (-age / half_life)`` of two non-negative integers, ``half_life`` > 0; 0 after 1,022 half-lives."""
    halvings = age / half_life
    if halvings > _LAST:
        return 0.0
    whole = np.int64(halvings)
    step = np.int64((halvings - whole) * _STEPS)
    u = ((halvings - whole) - step / _STEPS) * _LN2
    series = 1.0 - u * (1.0 - u / 2.0 * (1.0 - u / 3.0 * (1.0 - u / 4.0 * (1.0 - u / 5.0 * (1.0 - u / 6.0)))))
    return _POWERS[step] * series * number_of((1023 - whole) << 52)

"""Random numbers that are the same on every machine and with every NumPy.

NumPy promises the words of a bit generator, not what its distributions make of them, and the C library's ``exp`` and
``log`` may differ in a last bit. So everything here is words and integers; distributions are tables of integers.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_UPPER = np.uint64(32)
_QUANTILES = 1024


class Draws:
    """A stream of random numbers of its own for each place.

    Args:
        place: Numbers from 0 on that name it, such as seed and day.
    """

    def __init__(self, *place: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(place))

    def below(self, bound: int | Ints, n: int) -> Ints:
        """``(n,) int64`` from 0 to below ``bound``, which is at most 2³² and may differ by row."""
        words = np.asarray(self._bits.random_raw(n), np.uint64) >> _UPPER
        return (words * np.asarray(bound, np.uint64) >> _UPPER).astype(np.int64)

    def between(self, low: int, high: int, n: int) -> Ints:
        """``(n,) int64`` from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1, n)

    def pick(self, table: NDArray[Any], n: int) -> NDArray[Any]:
        """``(n,)`` entries of a table, each as likely as another."""
        return table[self.below(len(table), n)]

    def chance(self, permille: int | Ints, n: int) -> NDArray[np.bool_]:
        """``(n,) bool``, true for so many of a thousand."""
        return self.below(1000, n) < permille


def weighted(weights: dict[int, int]) -> Ints:
    """A table in which each value stands as often as it weighs."""
    return np.repeat(list(weights), list(weights.values())).astype(np.int64)


def log_normal(median: float, sigma: float, low: int, high: int) -> Ints:
    """``(1024,) int64`` a table of the quantiles of a log-normal distribution, rounded and clipped."""
    levels = [NormalDist().inv_cdf((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)]
    quantiles = [round(median * math.exp(sigma * level)) for level in levels]
    return np.clip(np.array(quantiles, np.int64), low, high)


def mixed(numbers: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Scrambled, different numbers staying different (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = numbers + np.uint64(salt)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)

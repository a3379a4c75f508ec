"""Some of the events of a slice, as columns again."""

import numba

from features.kernels import COMPILE


@numba.njit("void(i8[:,::1], u1[:,::1], i8[::1], i8[:,::1], u1[:,::1])", **COMPILE)
def take_events(words, valid, chosen, words_taken, valid_taken):
    """Columns of the chosen events."""
    for field in range(words.shape[0]):
        for i in range(chosen.size):
            words_taken[field, i] = words[field, chosen[i]]
            valid_taken[field, i] = valid[field, chosen[i]]

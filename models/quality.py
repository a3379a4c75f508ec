"""Quality of scores against outcomes: AUC, log loss, Brier score and calibration error, in NumPy alone."""

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64s = NDArray[np.float64]

CALIBRATION_BINS = 15

_CLIP = 1e-15
"""A score of exactly 0 or 1 that is wrong costs 34.5 nats, not infinitely many."""


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """How good the scores of labelled rows are; ``None`` where it is not defined.

    Args:
        rows: Labelled rows.
        auc: Area under the ROC curve; needs both outcomes.
        log_loss: Mean negative log-likelihood, nats.
        brier: Mean squared error.
        ece: Expected calibration error in 15 bins of equal mass.
    """

    rows: int
    auc: float | None
    log_loss: float | None
    brier: float | None
    ece: float | None


def measure(labels: ArrayLike, scores: ArrayLike) -> Quality:
    """The quality of ``(n,)`` probabilities for ``(n,)`` labels of 0 and 1."""
    known, given = _pair(labels, scores)
    return Quality(
        rows=len(known),
        auc=_defined(auc(known, given)),
        log_loss=_defined(log_loss(known, given)),
        brier=_defined(brier(known, given)),
        ece=_defined(ece(known, given)),
    )


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Probability that a row of label 1 scores above one of label 0, ties counted half (Mann-Whitney).

    NaN if one of the outcomes is absent.
    """
    known, given = _pair(labels, scores)
    positives = int(known.sum())
    pairs = positives * (len(known) - positives)
    if not pairs:
        return np.nan
    above = _midranks(given)[known == 1].sum() - positives * (positives - 1) / 2
    return float(above / pairs)


def log_loss(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean negative log-likelihood in nats; scores are kept ``1e-15`` away from 0 and 1; NaN of nothing."""
    known, given = _pair(labels, scores)
    if not len(known):
        return np.nan
    kept = np.clip(given, _CLIP, 1 - _CLIP)
    return float(-np.mean(known * np.log(kept) + (1 - known) * np.log1p(-kept)))


def brier(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean squared difference of score and label; NaN of nothing."""
    known, given = _pair(labels, scores)
    return float(np.mean((given - known) ** 2)) if len(known) else np.nan


def ece(labels: ArrayLike, scores: ArrayLike, bins: int = CALIBRATION_BINS) -> float:
    """Expected calibration error: mean distance of a bin's mean score from its share of label 1.

    Bins have equal mass. A row's bin is that of its rank; equal scores share the bin of their middle rank,
    so the value does not depend on the order of the rows. NaN of nothing.
    """
    known, given = _pair(labels, scores)
    if not len(known):
        return np.nan
    bin_of = (_midranks(given) * bins / len(known)).astype(np.int64).clip(0, bins - 1)
    gaps = np.bincount(bin_of, weights=given - known, minlength=bins)
    return float(np.abs(gaps).sum() / len(known))


def _midranks(scores: Float64s) -> Float64s:
    """Rank of each score from 0, equal scores sharing their mean rank."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[place])


def _pair(labels: ArrayLike, scores: ArrayLike) -> tuple[Float64s, Float64s]:
    known, given = np.asarray(labels, np.float64), np.asarray(scores, np.float64)
    assert known.shape == given.shape, f"{known.shape} labels for {given.shape} scores"
    return known, given


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else value

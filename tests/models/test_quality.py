import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics

from models.quality import auc, brier, ece, log_loss, measure

Pairs = tuple[NDArray[np.int64], NDArray[np.float32]]


@st.composite
def pairs(draw: st.DrawFn, smallest: int = 1) -> Pairs:
    """Labels and scores; few different scores, so that many are tied."""
    n = draw(st.integers(smallest, 60))
    steps = draw(st.sampled_from([1, 3, 1000]))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(0, steps).map(lambda i: i / steps), min_size=n, max_size=n))
    return np.array(labels), np.array(scores, np.float32)


@given(pairs())
def test_auc_is_the_share_of_pairs_in_the_right_order_ties_half(given_pairs: Pairs) -> None:
    labels, scores = given_pairs
    positive, negative = scores[labels == 1], scores[labels == 0]
    wins = [(p > n) + 0.5 * (p == n) for p in positive.tolist() for n in negative.tolist()]
    expected = np.mean(wins) if wins else np.nan
    assert auc(labels, scores) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(pairs(smallest=2))
def test_auc_log_loss_and_brier_equal_those_of_scikit_learn(given_pairs: Pairs) -> None:
    labels, scores = given_pairs[0], given_pairs[1].astype(np.float64)
    if 0 < labels.sum() < len(labels):
        assert auc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-12)
    assert brier(labels, scores) == pytest.approx(metrics.brier_score_loss(labels, scores), abs=1e-12)
    inside = np.clip(scores, 1e-9, 1 - 1e-9)
    assert log_loss(labels, inside) == pytest.approx(
        metrics.log_loss(labels, inside, labels=[0, 1]), abs=1e-9
    )


@given(pairs())
def test_ece_puts_equal_scores_into_the_bin_of_their_middle_rank(given_pairs: Pairs) -> None:
    labels, scores = given_pairs
    bins: dict[int, list[tuple[float, int]]] = {}
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        below, equal = (scores < score).sum(), (scores == score).sum()
        middle = below + (equal - 1) / 2
        bins.setdefault(math.floor(middle * 15 / len(scores)), []).append((score, label))
    expected = sum(
        abs(np.mean([s for s, _ in rows]) - np.mean([y for _, y in rows])) * len(rows)
        for rows in bins.values()
    ) / len(scores)
    assert ece(labels, scores) == pytest.approx(expected, abs=1e-9)


@given(pairs(), st.randoms(use_true_random=False))
def test_nothing_depends_on_the_order_of_the_rows(given_pairs: Pairs, random: np.random.RandomState) -> None:
    labels, scores = given_pairs
    order = list(range(len(labels)))
    random.shuffle(order)
    for before, after in zip(_values(labels, scores), _values(labels[order], scores[order]), strict=True):
        assert before == pytest.approx(after, abs=1e-12, nan_ok=True)


def test_ece_of_different_scores_is_that_of_fifteen_equal_masses() -> None:
    generator = np.random.default_rng(0)
    scores = np.sort(generator.permutation(1500) / 1500)
    labels = (generator.random(1500) < scores**2).astype(int)
    masses = zip(np.split(scores, 15), np.split(labels, 15), strict=True)
    expected = np.mean([abs(s.mean() - y.mean()) for s, y in masses])
    assert ece(labels, scores) == pytest.approx(expected, abs=1e-12)


def test_calibrated_scores_have_a_small_error_and_wrong_certainty_a_finite_loss() -> None:
    generator = np.random.default_rng(1)
    scores = generator.random(100_000)
    labels = (generator.random(100_000) < scores).astype(int)
    assert ece(labels, scores) < 0.01
    assert log_loss([1], [0.0]) == pytest.approx(-math.log(1e-15))


def test_what_is_not_defined_is_none() -> None:
    one_outcome = measure([1, 1], [0.5, 0.5])
    assert one_outcome.auc is None
    assert one_outcome.brier == 0.25
    nothing = measure([], [])
    assert (nothing.rows, nothing.auc, nothing.log_loss, nothing.brier, nothing.ece) == (
        0,
        None,
        None,
        None,
        None,
    )


def _values(labels: NDArray[np.int64], scores: NDArray[np.float32]) -> list[float]:
    return [each(labels, scores) for each in (auc, log_loss, brier, ece)]

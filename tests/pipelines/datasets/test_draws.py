import numpy as np
import pytest

from pipelines.datasets.draws import Draws, log_normal, mixed, weighted


def test_a_place_has_its_own_numbers_for_ever() -> None:
    assert Draws(7, 1, 3).below(1000, 6).tolist() == [516, 208, 200, 337, 838, 545]
    assert Draws(7, 1, 3).below(1000, 6).tolist() != Draws(7, 1, 4).below(1000, 6).tolist()


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 2**32])
def test_numbers_stay_below_their_bound_and_reach_all_of_it(bound: int) -> None:
    drawn = Draws(1).below(bound, 50_000)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    assert abs(drawn.mean() / (bound - 1 or 1) - (0.5 if bound > 1 else 0)) < 0.01


def test_each_row_may_have_a_bound_of_its_own() -> None:
    bounds = np.array([1, 5, 1000] * 1000)
    drawn = Draws(2).below(bounds, 3000)
    assert (drawn < bounds).all()
    assert drawn[1::3].max() == 4


def test_chances_weights_and_ends_are_as_said() -> None:
    draws = Draws(3)
    assert abs(draws.chance(250, 40_000).mean() - 0.25) < 0.01
    assert np.bincount(weighted({0: 3, 2: 1})).tolist() == [3, 0, 1]
    assert set(draws.between(4, 6, 100).tolist()) == {4, 5, 6}


def test_a_log_normal_table_has_the_median_and_the_spread() -> None:
    table = log_normal(1000, 0.5, 0, 10**9)
    assert abs(np.median(table) - 1000) <= 1
    assert abs(np.log(table).std() - 0.5) < 0.01
    assert log_normal(1000, 0.5, 900, 1100).min() == 900


def test_mixing_keeps_different_numbers_different() -> None:
    numbers = np.concatenate([np.arange(50_000), np.arange(50_000) << 32]).astype(np.uint64)
    assert len(np.unique(mixed(numbers, 7))) == len(np.unique(numbers))
    assert mixed(numbers, 7)[1] != mixed(numbers, 8)[1]

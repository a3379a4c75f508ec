import msgspec
import pytest

from benchmarks.scaling.report import (
    CostRun,
    Pauses,
    added,
    churn_of,
    feature_ratios,
    form,
    medians,
    pauses_of,
    quotient,
)


def costs(variant: str, *cpu_us: float) -> list[CostRun]:
    return [CostRun(variant=variant, repetition=number, cpu_us=each) for number, each in enumerate(cpu_us, 1)]


def test_a_quotient_is_the_median_of_those_within_a_repetition() -> None:
    runs = costs("many", 2.0, 8.0, 3.0) + costs("few", 1.0, 2.0, 3.0)
    assert quotient(runs, "many", "few") == 2.0
    assert medians(runs) == {"many": 3.0, "few": 2.0}


def test_features_are_linear_when_each_costs_as_much_as_one_of_the_fewest() -> None:
    runs = [*costs("features_12", 1.2), *costs("features_50", 5.0), *costs("features_200", 10.0)]
    assert feature_ratios(runs) == pytest.approx({"50": 1.0, "200": 0.5})


def test_growth_compares_the_halves_after_the_first_fifth() -> None:
    found = churn_of([900, 900, 10, 20, 20, 20, 30, 20, 20, 20], [5] * 9 + [7], 1000)
    assert (found.first_half, found.second_half, found.growth, found.keys) == (20, 30, 1.5, 7)


def test_the_slowest_of_a_thousand_slices_is_beyond_the_percentile_and_the_second_is_it() -> None:
    found = pauses_of([0.001] * 998 + [0.020, 0.050])
    assert found == Pauses(p50=1.0, p999=20.0, max=50.0)


def test_what_a_run_adds_is_over_the_steady_one_of_as_many_keys() -> None:
    p999 = {"steady": 2.0, "growing": 7.0, "saving": 1.5, "steady_few": 1.0, "evicting": 4.0}
    pauses = {name: Pauses(p50=0.5, p999=each, max=9.0) for name, each in p999.items()}
    assert added(pauses) == {"growing": 5.0, "saving": -0.5, "evicting": 3.0}


def test_pauses_are_looked_for_among_enough_slices_for_the_percentile() -> None:
    assert all(form(quick=quick).slices >= 1000 for quick in (True, False))
    assert msgspec.json.decode(msgspec.json.encode(form(quick=True)), type=type(form(quick=True)))

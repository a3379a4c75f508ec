"""Distinct and quantile beyond what they hold exactly, while the window slides over bursts and lulls."""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from features.engine import Engine
from features.featureset import FeatureSet
from features.kernels.distinct import EXACT as EXACT_DISTINCT
from features.kernels.quantile import EXACT as EXACT_QUANTILE
from features.kinds import distinct, quantile
from features.kinds.kind import Kind
from features.windows import Window
from tests.features import streams

S = timedelta(seconds=1)
WINDOWS = (Window(60 * S, 5 * S), Window(60 * S, 60 * S), Window(120 * S, S))
QUANTILES = (0.01, 0.25, 0.5, 0.9, 0.99)
Floats = NDArray[np.floating]


def columns_of(
    kinds: dict[str, Kind], times: Floats, values: Floats, every: int
) -> Iterator[tuple[int, Any]]:
    """The row of every so manieth event, of a stream of one key."""
    engine = Engine(streams.schema(), [FeatureSet(key="card", features=kinds, include_current=True)])
    state = engine.new_partition()
    for start in range(0, len(times), every):
        events = [
            {"card": "a", "ts": int(t), "amount": float(v), "kind": "buy"}
            for t, v in zip(times[start : start + every], values[start : start + every], strict=True)
        ]
        rows = streams.process(engine, events, (), state)
        yield min(start + every, len(times)) - 1, rows.block[-1]


def uneven_times(random: np.random.Generator, events: int) -> Floats:
    """Ascending, with bursts and lulls: the rate changes a hundredfold."""
    rates = np.repeat(random.choice([2.0, 20.0, 200.0], events // 5_000 + 1), 5_000)[:events]
    return np.cumsum(random.exponential(rates / 100)).astype(np.int64).astype(np.float64)


def in_window(times: Floats, at: int, window: Window) -> slice:
    oldest = math.floor((times[at] - window.length_ms) / window.tile_ms) * window.tile_ms
    return slice(int(np.searchsorted(times[: at + 1], oldest)), at + 1)


@pytest.mark.parametrize("seed", range(3))
def test_distinct_is_exact_for_a_while_then_within_three_percent(seed: int) -> None:
    random = np.random.default_rng(seed)
    events = 200_000
    times = uneven_times(random, events)
    values = random.integers(0, [10**3, 10**5, 10**12][seed], events).astype(np.float64)
    kinds: dict[str, Kind] = {f"d{i}": distinct("amount", window=window) for i, window in enumerate(WINDOWS)}
    exact, beyond = 0, 0
    for at, row in columns_of(kinds, times, values, 4_999):
        for window, found in zip(WINDOWS, row, strict=True):
            number = len(np.unique(values[in_window(times, at, window)]))
            if number <= EXACT_DISTINCT // 2:
                exact += 1
            else:
                beyond += 1
            assert abs(found - number) <= 0.03 * number
    assert exact + beyond > 100
    assert beyond > 20 or seed == 0


def test_distinct_is_exact_up_to_what_it_holds() -> None:
    events = EXACT_DISTINCT
    times, values = np.arange(events) / 1.0, np.arange(events) % (events - 1) * 1.0
    for at, row in columns_of({"d": distinct("amount", window=WINDOWS[0])}, times, values, 1_000):
        assert row[0] == min(at + 1, events - 1)


@pytest.mark.parametrize("values_a_window", [40, 200, 1_000, 3_500])
def test_events_out_of_order_and_late_ones_change_no_value_of_many(values_a_window: int) -> None:
    random = np.random.default_rng(values_a_window)
    events, window = 4 * values_a_window + 2_000, Window(60 * S, 5 * S)
    ahead = np.cumsum(random.exponential(60_000 / values_a_window, events)).astype(np.int64)
    back = np.where(random.random(events) < 0.3, random.integers(0, 30_000, events), 0)
    times, amounts = (
        np.maximum(0, ahead - back),
        random.integers(-values_a_window, values_a_window, events) / 4,
    )
    marks = np.maximum.accumulate(times)
    is_late = times < marks - 20_000
    kinds: dict[str, Kind] = {
        "d": distinct("amount", window=window),
        "low": quantile("amount", 0.1, window=window),
        "high": quantile("amount", 0.9, window=window),
    }
    schema = streams.schema(max_late=20 * S)
    engine = Engine(schema, [FeatureSet(key="card", features=kinds, include_current=True)])
    state, half, found = engine.new_partition(), events // 2, []
    for cut in (slice(0, half), slice(half, events)):
        given = [
            {"card": "a", "ts": int(t), "amount": float(v), "kind": "buy"}
            for t, v in zip(times[cut], amounts[cut], strict=True)
        ]
        found.append(streams.process(engine, given, range(0, len(given), 500), state).block)
        restored = engine.new_partition()
        restored.restore(state.snapshot())
        state = restored
    rows, most = np.concatenate(found), 0
    for at in range(0, events, 7):
        oldest = (marks[at] - window.length_ms) // window.tile_ms * window.tile_ms
        held = np.sort(amounts[: at + 1][(times[: at + 1] >= oldest) & ~is_late[: at + 1]])
        ranks = [max(1, math.ceil(len(held) * tenths / 10)) for tenths in (1, 9)]
        assert [*rows[at]] == [len(np.unique(held)), *(np.float32(held[rank - 1]) for rank in ranks)]
        most = max(most, len(held))
    assert is_late.sum() > 50
    assert most >= values_a_window


def rank_error(ordered: Floats, found: float, q: float) -> float:
    """How far the rank of what was found is from the one asked for, as a share of all."""
    low, high = (int(np.searchsorted(ordered, found, side=side)) for side in ("left", "right"))
    wanted = max(1, math.ceil(q * len(ordered)))
    return float(max(0, low + 1 - wanted, wanted - high)) / len(ordered)


@pytest.mark.parametrize("shape", ["uniform", "lognormal", "few", "rising", "close"])
def test_the_rank_of_a_quantile_is_at_most_one_percent_off(shape: str) -> None:
    random = np.random.default_rng(7)
    events = 150_000
    times = uneven_times(random, events)
    values = {
        "uniform": random.random(events),
        "lognormal": random.lognormal(0, 3, events),
        "few": random.integers(0, 7, events).astype(np.float64),
        "rising": np.arange(events) * 1.0,
        "close": 1e9 + random.random(events),
    }[shape]
    values = values.astype(np.float32)
    kinds: dict[str, Kind] = {
        f"q{i}_{q}": quantile("amount", q, window=window)
        for i, window in enumerate(WINDOWS[:2])
        for q in QUANTILES
    }
    worst, large = 0.0, 0
    for at, row in columns_of(kinds, times, values, 4_999):
        for i, window in enumerate(WINDOWS[:2]):
            ordered = np.sort(values[in_window(times, at, window)])
            large += len(ordered) > EXACT_QUANTILE
            errors = [rank_error(ordered, row[len(QUANTILES) * i + j], q) for j, q in enumerate(QUANTILES)]
            worst = max(worst, *errors)
    assert large > 30
    assert worst <= 0.01


def test_a_quantile_is_exact_up_to_what_it_holds() -> None:
    random = np.random.default_rng(7)
    values, held = random.random(20_000).astype(np.float32), []
    times = np.arange(20_000) * 15.0  # 4,000 in 60 s, and what the tile adds
    kinds: dict[str, Kind] = {f"q{q}": quantile("amount", q, window=Window(55 * S, 5 * S)) for q in QUANTILES}
    for at, row in columns_of(kinds, times, values, 251):
        ordered = np.sort(values[in_window(times, at, Window(55 * S, 5 * S))])
        held.append(len(ordered))
        assert [*row] == [np.float32(ordered[max(1, math.ceil(q * len(ordered))) - 1]) for q in QUANTILES]
    assert max(held) > 3_900

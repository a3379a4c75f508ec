from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.engine import Engine
from features.expressions import col
from features.featureset import FeatureSet
from features.kernels.rings import MAX_TILES
from features.kinds import (
    category,
    count,
    derived,
    first,
    first_category,
    last,
    last_category,
    max_,
    mean,
    min_,
    ratio,
    raw,
    running_count,
    seconds_since_last,
    std,
    sum_,
    time_part,
)
from features.kinds.kind import Kind
from features.windows import Window
from tests.features import oracle, streams
from tests.features.oracle import Oracle, Reader
from tests.features.saved import contents

S = timedelta(seconds=1)
LENGTHS = ((3, 1), (10, 5), (60, 5), (60, 60))
IS_BUY = col("kind") == "buy"
IS_BIG = col("amount") > 1


def is_buy(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == "buy")


def is_big(event: Mapping[str, Any]) -> bool | None:
    return None if event["amount"] is None else event["amount"] > 1


def windowed() -> tuple[dict[str, Kind], list[Reader]]:
    """Every windowed kind over every window, and how brute force reads it."""
    kinds: dict[str, Kind] = {}
    readers: list[Reader] = []
    for length, tile in LENGTHS:
        window, ms = Window(length * S, tile * S), (length * 1000, tile * 1000)
        for name, kind, reader in (
            ("n", count(window=window), oracle.count(*ms)),
            ("buys", count(window=window, where=IS_BUY), oracle.count(*ms, where=is_buy)),
            ("total", sum_("amount", window=window, where=IS_BUY), oracle.sum_("amount", *ms, where=is_buy)),
            ("mean", mean("amount", window=window), oracle.mean("amount", *ms)),
            ("most", max_("amount", window=window), oracle.max_("amount", *ms)),
            ("least", min_("amount", window=window, where=IS_BUY), oracle.min_("amount", *ms, where=is_buy)),
            ("big", ratio(IS_BIG, window=window, where=IS_BUY), oracle.ratio(is_big, *ms, where=is_buy)),
        ):
            kinds[f"{name}_{length}_{tile}"] = kind
            readers.append(reader)
    return kinds, readers


def unwindowed() -> tuple[dict[str, Kind], list[Reader]]:
    kinds: dict[str, Kind] = {
        "last": last("amount"),
        "last_buy": last("amount", where=IS_BUY),
        "first": first("amount"),
        "first_big": first("amount", where=IS_BIG),
        "so_far": running_count(),
        "big_so_far": running_count(where=IS_BIG),
        "since": seconds_since_last(),
        "since_big": seconds_since_last(where=IS_BIG),
    }
    return kinds, [
        oracle.last("amount"),
        oracle.last("amount", where=is_buy),
        oracle.first("amount"),
        oracle.first("amount", where=is_big),
        oracle.running_count(),
        oracle.running_count(where=is_big),
        oracle.seconds_since_last(),
        oracle.seconds_since_last(where=is_big),
    ]


def engine_of(kinds: Mapping[str, Kind], *, key: Any = "card", late: float = 20, **declared: Any) -> Engine:
    return Engine(
        streams.schema(max_late=late * S), [FeatureSet(key=key, name="set", features=kinds, **declared)]
    )


@settings(max_examples=300)
@given(
    events=streams.streams(),
    late=st.sampled_from([0, 5, 20]),
    ttl=st.sampled_from([None, 4, 30]),
    include_current=st.booleans(),
)
def test_every_row_equals_brute_force(
    events: list[dict[str, Any]], late: int, ttl: int | None, include_current: bool
) -> None:
    for kinds, readers in (windowed(), unwindowed()):
        declared = None if ttl is None else ttl * S
        engine = engine_of(kinds, late=late, ttl=declared, include_current=include_current)
        expires = engine.sets[0].expires_after
        judge = Oracle(
            key="card",
            readers=readers,
            max_late=late * 1000,
            ttl=None if expires is None else expires // timedelta(milliseconds=1),
            include_current=include_current,
        )
        expected = np.array([judge.row(event) for event in events], np.float64).reshape(
            len(events), len(readers)
        )
        rows = streams.process(engine, events)
        np.testing.assert_array_equal(rows.block, expected.astype(np.float32))


def mixed_engine() -> Engine:
    """Every kind there is, over three entity keys, some with a ttl."""
    kinds = {
        **windowed()[0],
        **unwindowed()[0],
        "shop": last_category("shop"),
        "first_shop": first_category("shop"),
        "spread": std("amount", window=10 * S),
    }
    row = FeatureSet(
        features={
            "amount": raw("amount"),
            "double": derived(col("amount") * 2),
            "hour": time_part("hour", "Asia/Kolkata"),
            "at": category("shop"),
        }
    )
    return Engine(
        streams.schema(),
        [
            row,
            FeatureSet(key="card", features=kinds, ttl=30 * S),
            FeatureSet(key=("card", "shop"), features=windowed()[0]),
            FeatureSet(key=("card", "kind"), features=kinds, include_current=True),
        ],
        score_when=IS_BUY,
    )


MIXED = mixed_engine()
cuts = st.lists(st.integers(0, 200), max_size=8)


def assert_same_bits(left: Any, right: Any) -> None:
    assert left.block.tobytes() == right.block.tobytes()
    assert left.ids.tobytes() == right.ids.tobytes()


@settings(max_examples=150)
@given(events=streams.streams(), cut_at=cuts)
def test_rows_do_not_depend_on_how_the_stream_is_cut(events: list[dict[str, Any]], cut_at: list[int]) -> None:
    assert_same_bits(streams.process(MIXED, events, cut_at), streams.process(MIXED, events))


@settings(max_examples=100)
@given(events=streams.streams(), cut_at=cuts, restart_at=st.integers(0, 60))
def test_a_restored_state_goes_on_with_the_same_bits(
    events: list[dict[str, Any]], cut_at: list[int], restart_at: int
) -> None:
    state = MIXED.new_partition()
    before, after = events[:restart_at], events[restart_at:]
    first = streams.process(MIXED, before, cut_at, state)
    snapshot = state.snapshot()
    streams.process(MIXED, after, cut_at, state)
    moved = MIXED.new_partition()
    moved.restore(snapshot)
    second = streams.process(MIXED, after, cut_at, moved)
    whole = streams.process(MIXED, events)
    assert first.block.tobytes() + second.block.tobytes() == whole.block.tobytes()
    assert first.ids.tobytes() + second.ids.tobytes() == whole.ids.tobytes()
    assert contents(moved) == contents(state)


@settings(max_examples=100)
@given(events=streams.streams())
def test_rows_do_not_depend_on_the_events_of_other_keys(events: list[dict[str, Any]]) -> None:
    alone = [event if event["card"] == "card-0" else {**event, "card": None} for event in events]
    mine = [i for i, event in enumerate(e for e in events if e["kind"] == "buy") if event["card"] == "card-0"]
    assert_same_bits_at(streams.process(MIXED, events), streams.process(MIXED, alone), mine)


def assert_same_bits_at(left: Any, right: Any, rows: list[int]) -> None:
    assert left.block[rows].tobytes() == right.block[rows].tobytes()
    assert left.ids[rows].tobytes() == right.ids[rows].tobytes()


@settings(max_examples=150)
@given(events=streams.streams(), late=st.sampled_from([0, 20]), include_current=st.booleans())
def test_standard_deviations_are_those_of_brute_force(
    events: list[dict[str, Any]], late: int, include_current: bool
) -> None:
    kinds: dict[str, Kind] = {}
    readers = []
    for length, tile in LENGTHS:
        window, ms = Window(length * S, tile * S), (length * 1000, tile * 1000)
        kinds[f"all_{length}_{tile}"] = std("amount", window=window)
        kinds[f"buys_{length}_{tile}"] = std("amount", window=window, where=IS_BUY)
        readers += [oracle.std("amount", *ms), oracle.std("amount", *ms, where=is_buy)]
    engine = engine_of(kinds, late=late, include_current=include_current)
    judge = Oracle(
        key="card",
        readers=readers,
        max_late=late * 1000,
        ttl=(engine.sets[0].expires_after or S) // timedelta(milliseconds=1),
        include_current=include_current,
    )
    expected = np.array([judge.row(event) for event in events]).reshape(len(events), len(readers))
    np.testing.assert_allclose(streams.process(engine, events).block, expected, rtol=1e-6, atol=1e-5)


def test_standard_deviations_of_large_numbers_do_not_cancel() -> None:
    engine = engine_of({"spread": std("amount", window=Window(10 * S, S))})
    amounts = 1e9 + np.random.default_rng(7).random(3000)
    events = [
        {"card": "a", "ts": 1000 * (i // 7), "amount": a, "kind": "buy"}
        for i, a in enumerate(amounts.tolist())
    ]
    judge = Oracle(key="card", readers=[oracle.std("amount", 10_000, 1000)], max_late=20_000)
    expected = [judge.row(event)[0] for event in events]
    found = streams.process(engine, events, range(0, 3000, 13)).block[:, 0]
    np.testing.assert_allclose(found[7:], expected[7:], rtol=1e-5)


def test_sums_of_floats_lose_nothing_to_subtraction() -> None:
    window = Window(10 * S, S)
    engine = engine_of({"total": sum_("amount", window=window)})
    random = np.random.default_rng(7)
    amounts = np.where(random.random(4000) < 0.02, 1e15, random.random(4000))
    events = [
        {"card": "a", "ts": 1000 * (i // 7), "amount": a, "kind": "buy"}
        for i, a in enumerate(amounts.tolist())
    ]
    judge = Oracle(key="card", readers=[oracle.sum_("amount", 10_000, 1000)], max_late=20_000)
    expected = [judge.row(event)[0] for event in events]
    found = streams.process(engine, events, range(0, 4000, 13)).block[:, 0]
    np.testing.assert_allclose(found, expected, rtol=3e-7)


def test_a_window_of_as_many_tiles_as_there_may_be() -> None:
    tiles, events = MAX_TILES, 45_000
    window = Window(tiles * S, S)
    engine = engine_of({"n": count(window=window), "total": sum_("amount", window=window)}, late=0)
    amounts, state = np.arange(events) % 7, engine.new_partition()
    stream = [{"card": "a", "ts": 1000 * i, "amount": float(a), "kind": "buy"} for i, a in enumerate(amounts)]
    found = streams.process(engine, stream, range(0, events, 900), state).block
    before = np.concatenate([[0], np.cumsum(amounts)])
    oldest = np.maximum(np.arange(events) - tiles, 0)
    np.testing.assert_array_equal(found[:, 0], np.arange(events) - oldest)
    np.testing.assert_array_equal(found[:, 1], before[:-1] - before[oldest])
    assert state.size < 150 * tiles


def test_keys_that_expire_give_their_memory_back() -> None:
    engine = engine_of({**windowed()[0], **unwindowed()[0]}, ttl=30 * S, late=0)
    state, sizes = engine.new_partition(), []
    for round_ in range(40):
        events = [
            {"card": f"{round_}-{i}", "ts": round_ * 60_000 + i * 50, "amount": 1.0, "kind": "buy"}
            for i in range(600)
        ]
        streams.process(engine, events, range(0, 600, 50), state)
        sizes.append(state.size)
    assert state.keys < 1300
    assert max(sizes[5:]) <= 1.2 * sizes[4]


def test_many_keys_are_kept_apart() -> None:
    engine = engine_of({"last": last("amount")})
    state = engine.new_partition()
    events = [
        {"card": f"card-{i}" * (1 + i % 5), "ts": 0, "amount": float(i), "kind": "buy"} for i in range(20_000)
    ]
    streams.process(engine, events, range(0, 20_000, 777), state)
    assert state.keys == 20_000
    again = streams.process(engine, events, range(0, 20_000, 999), state)
    np.testing.assert_array_equal(again.block[:, 0], np.arange(20_000, dtype=np.float32))


def test_a_slice_of_nothing_gives_no_rows() -> None:
    assert len(streams.process(MIXED, [])) == 0


@pytest.mark.parametrize("size", [1, 15, 16, 17])
def test_the_scanner_and_msgspec_give_the_same_rows(size: int) -> None:
    events = [
        {"card": "c", "shop": "x", "ts": i * 700, "amount": i / 8, "kind": "buy" if i % 3 else "refund"}
        for i in range(64)
    ]
    assert_same_bits(streams.process(MIXED, events, range(0, 64, size)), streams.process(MIXED, events))

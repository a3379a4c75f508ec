import os
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.archive import ARCHIVE, to_archive
from features.engine import Engine
from features.errors import Unavailable
from features.expressions import col
from features.featureset import FeatureSet
from features.folder import Lane, LaneRows, LocalFolder
from features.kinds import category, count, last_category, mean, running_count, seconds_since_last, sum_
from features.shards import Shards
from features.windows import Window
from tests.features import streams
from tests.features.streams import Events

S = timedelta(seconds=1)
ENGINE = Engine(
    streams.schema(),
    [
        FeatureSet(features={"shop": category("shop")}),
        FeatureSet(
            key="card",
            ttl=15 * S,
            features={
                "n": count(window=Window(60 * S, 5 * S)),
                "mean": mean("amount", window=Window(10 * S, 5 * S)),
                "since": seconds_since_last(),
                "ever": running_count(),
                "last_shop": last_category("shop"),
            },
        ),
        FeatureSet(
            key=("shop", "card"),
            name="there",
            ttl=40 * S,
            include_current=True,
            features={"total": sum_("amount", window=Window(60 * S, 60 * S)), "visits": running_count()},
        ),
    ],
    score_when=col("kind") == "buy",
)
Position = tuple[int, int]


class LocalShards:
    """Every shard in this process."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self._folders = [LocalFolder(ENGINE) for _ in range(shards)]

    def submit(self, lanes: Sequence[Lane]) -> Callable[[], Sequence[LaneRows]]:
        rows = [self._folders[lane.shard].fold(lane.partition, lane.columns, lane.heights) for lane in lanes]
        return lambda: rows


def archive(partitions: Sequence[Events], turns: Sequence[int]) -> pa.Table:
    """The partitions' events, the next one from each in turn, then the rest."""
    tables = [to_archive(number, streams.records(events)) for number, events in enumerate(partitions)]
    order, at = [], [0] * len(tables)
    for turn in [*turns, *(n for n, events in enumerate(partitions) for _ in events)]:
        number = turn % len(tables)
        if at[number] < len(tables[number]):
            order.append(sum(map(len, tables[:number])) + at[number])
            at[number] += 1
    return pa.concat_tables([ARCHIVE.empty_table(), *tables]).take(pa.array(order, pa.int64()))


def live(partitions: Sequence[Events], cuts: Sequence[int]) -> dict[Position, int]:
    """Digest by position, as a worker computes them: partition by partition, slice by slice."""
    found = {}
    for number, events in enumerate(partitions):
        state, first = ENGINE.new_partition(), 0
        for part in streams.slices(events, cuts):
            rows = state.process(streams.columns(ENGINE.schema, part))
            for event, digest in zip(rows.events.tolist(), rows.digests().tolist(), strict=True):
                found[number, first + event] = digest
            first += len(part)
    return found


def offline(table: pa.Table, shards: int) -> dict[Position, int]:
    """The same of a replay; fails if rows are not in the order of the events."""
    found: dict[Position, int] = {}
    for piece in streams.replayed(ENGINE, table, folder=LocalShards(shards) if shards > 1 else None):
        assert (np.diff(piece.events) > 0).all()
        partitions, offsets = piece.batch.partitions[piece.events], piece.batch.offsets[piece.events]
        for *position, digest in zip(
            partitions.tolist(), offsets.tolist(), piece.digests.tolist(), strict=True
        ):
            found[position[0], position[1]] = digest
    return found


@settings(max_examples=80)
@given(
    partitions=st.lists(streams.streams(max_size=40), min_size=1, max_size=3),
    turns=st.lists(st.integers(0, 2), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    shards=st.integers(2, 5),
)
def test_sharded_replay_equals_unsharded_replay_equals_live_slices(
    partitions: list[list[dict[str, Any]]], turns: list[int], cuts: list[int], shards: int
) -> None:
    table = archive(partitions, turns)
    wanted = live(partitions, cuts)
    assert offline(table, 1) == wanted
    assert offline(table, shards) == wanted


def test_another_keys_event_makes_one_late_and_expires_one_in_whichever_shard_they_are() -> None:
    def event(card: str | None, seconds: int) -> dict[str, Any]:
        return {"card": card, "shop": "a", "ts": 1000 * seconds, "amount": 1.0, "kind": "buy"}

    cards = [f"card-{i}" for i in range(20)]
    firsts, back = [event(card, 100) for card in cards], [event(card, 99) for card in cards]
    late = [*firsts, event(None, 120), *back]  # older than the watermark by 21 s: not folded
    expired = [*firsts, event(None, 136), *[event(card, 114) for card in cards]]  # 36 s > ttl + max_late
    for events in (late, expired):
        table = archive([events], [])
        assert offline(table, 4) == offline(table, 1) == live([events], [])
    without = live([[event for event in late if event["card"] is not None]], [])
    assert [without[0, 20 + i] for i in range(20)] != [live([late], [])[0, 21 + i] for i in range(20)]


@pytest.fixture(scope="module")
def processes() -> Iterator[Shards]:
    with Shards(ENGINE, 2) as shards:
        yield shards


def test_processes_give_the_bits_of_one(processes: Shards) -> None:
    random = np.random.default_rng(3)
    events = [
        {
            "card": None if card == 40 else f"card-{card}",
            "shop": None if shop == 3 else f"shop-{shop}",
            "ts": ts,
            "amount": amount,
            "kind": "buy" if amount > 2 else "refund",
        }
        for card, shop, ts, amount in zip(
            random.integers(0, 41, 70_000).tolist(),
            random.integers(0, 4, 70_000).tolist(),
            (np.arange(70_000) * 100 + random.integers(-30_000, 1_000, 70_000)).tolist(),
            random.integers(0, 9, 70_000).astype(float).tolist(),
            strict=True,
        )
    ]
    table = archive([events[0::3], events[1::3], events[2::3]], [0, 1, 2] * 30_000)
    one, two = streams.replayed(ENGINE, table), streams.replayed(ENGINE, table, folder=processes)
    assert len(one) == len(two) > 2
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.floats.view(np.uint32), b.floats.view(np.uint32))
        for name in ("events", "categories", "digests"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_process_that_dies_is_an_error_that_says_so() -> None:
    table = archive([[{"card": f"c{i}", "ts": i, "kind": "buy"} for i in range(50)]], [])
    with Shards(ENGINE, 2) as shards:
        streams.replayed(ENGINE, table, folder=shards)
        pid = shards._processes[1]._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match=r"Process 2 of 2 that folds ended with -9; .*fewer --workers"):
            streams.replayed(ENGINE, table, folder=shards)

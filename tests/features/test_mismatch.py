from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.archive import to_archive
from features.engine import Engine
from features.expressions import col
from features.featureset import FeatureSet
from features.kinds import category, count, last, last_category, mean, raw, running_count
from features.logged import rows_of
from features.mismatch import EVENTS, Mismatch, PublishedRow, differences, explain, recomputed_rows
from features.parity import RowDigests, compare, explained
from features.replay import ReplayedSlice
from features.windows import Window
from tests.features import streams

S = timedelta(seconds=1)
KNOWN = ~col("amount").is_missing()


def engine(*, include_current: bool = False, ttl: timedelta | None = None) -> Engine:
    """Beside each column, one that counts the events that take part in it."""
    card = {
        "n": count(window=Window(10 * S, 5 * S)),
        "mean": mean("amount", window=Window(60 * S, 5 * S), where=col("kind") == "buy"),
        "of_mean": count(window=Window(60 * S, 5 * S), where=(col("kind") == "buy") & KNOWN),
        "last": last("amount"),
        "of_last": running_count(where=KNOWN),
        "shop": last_category("shop"),
        "of_shop": running_count(where=~col("shop").is_missing()),
    }
    return Engine(
        streams.schema(),
        [
            FeatureSet(features={"amount": raw("amount"), "kind": category("kind")}),
            FeatureSet(key="card", features=card, include_current=include_current, ttl=ttl),
            FeatureSet(key=("card", "shop"), features={"n": count(window=Window(60 * S, 5 * S))}),
        ],
    )


ENGINE = engine()


def replayed(it: Engine, events: list[dict[str, Any]]) -> Iterator[ReplayedSlice]:
    return iter(streams.replayed(it, to_archive(0, streams.records(events))))


def explanation(
    events: list[dict[str, Any]], offset: int, online: dict[str, Any] | None, it: Engine = ENGINE
) -> Mismatch:
    (row,) = recomputed_rows(lambda: replayed(it, events), [(0, offset)])
    return explain(it, lambda: replayed(it, events), row, PublishedRow(digest=1, features=online))


@settings(max_examples=150)
@given(
    events=streams.streams(max_size=40),
    at=st.integers(0, 39),
    include_current=st.booleans(),
    ttl=st.sampled_from([None, 4 * S, 30 * S]),
)
def test_the_events_behind_a_row_are_those_that_its_counts_count(
    events: list[dict[str, Any]], at: int, include_current: bool, ttl: timedelta | None
) -> None:
    if not events:
        return
    it, offset = engine(include_current=include_current, ttl=ttl), at % len(events)
    found = explanation(events, offset, None, it)
    values = {each.column: each.recomputed.number for each in found.differences if each.recomputed}
    keyed = {each.columns[0]: each for each in found.evidence}
    card, pair = keyed["card.n"], keyed["card_shop.n"]
    if events[offset]["card"] is None:
        assert (card.total, pair.total) == (0, 0)
        return
    for column, counted in (("n", "n"), ("mean", "of_mean"), ("last", "of_last"), ("shop", "of_shop")):
        assert card.counting[f"card.{column}"] == values[f"card.{counted}"]
    assert pair.counting["card_shop.n"] == (0 if events[offset]["shop"] is None else values["card_shop.n"])
    if card.total <= EVENTS:
        for column, counting in card.counting.items():
            assert sum(column in each.counts_for for each in card.events) == counting
    assert card.events[-1].offset == offset
    assert card.events[-1].event_time == events[offset]["ts"]


EVENTS_OF_X: list[dict[str, Any]] = [
    {"card": card, "shop": "a", "ts": 1000 * i, "amount": float(i), "kind": "buy"}
    for i, card in enumerate(["x", "y", "x", "x", "y", "x"])
]


def online(offset: int, **changed: Any) -> dict[str, Any]:
    """What a worker would have logged of the row, but for some columns."""
    (row,) = recomputed_rows(lambda: replayed(ENGINE, EVENTS_OF_X), [(0, offset)])
    logged = {
        each.column: None if each.recomputed.number != each.recomputed.number else each.recomputed.number
        for each in differences(ENGINE, row, None)
        if each.recomputed
    }
    return {
        **logged,
        **changed.pop("others", {}),
        **{f"card.{name}": value for name, value in changed.items()},
    }


def test_only_the_columns_whose_bits_differ_are_named_with_both_values() -> None:
    assert explanation(EVENTS_OF_X, 5, online(5)).differences == ()
    found = explanation(EVENTS_OF_X, 5, online(5, mean=9.5))
    (difference,) = found.differences
    assert difference.column == "card.mean"
    assert difference.online is not None
    assert difference.recomputed is not None
    assert (difference.online.number, difference.recomputed.number) == (9.5, 1.6666666)
    assert (found.key, found.offset, found.event_time, found.is_logged) == ("x", 5, 5000, True)
    (evidence,) = found.evidence
    assert evidence.entity == {"card": "x"}
    assert [(each.offset, each.fields["amount"], each.counts_for) for each in evidence.events] == [
        (0, 0.0, ("card.mean",)),
        (2, 2.0, ("card.mean",)),
        (3, 3.0, ("card.mean",)),
        (5, 5.0, ()),
    ]


@pytest.mark.parametrize(
    ("changed", "bits"),
    [
        ({"n": "0x80000000"}, ("0x80000000", "0x00000000")),
        ({"n": None}, ("0x7fc00000", "0x00000000")),
        ({"n": "0x7f800000"}, ("0x7f800000", "0x00000000")),
    ],
)
def test_values_that_print_alike_differ_by_their_bits(changed: dict[str, Any], bits: tuple[str, str]) -> None:
    (difference,) = explanation(EVENTS_OF_X, 0, online(0, **changed)).differences
    assert difference.online is not None
    assert difference.recomputed is not None
    assert (difference.online.bits, difference.recomputed.bits) == bits


def test_a_column_that_one_side_does_not_have_is_a_difference() -> None:
    theirs = online(5, others={"card.old": 1.0})
    del theirs["card.n"]
    found = {each.column: each for each in explanation(EVENTS_OF_X, 5, theirs).differences}
    assert set(found) == {"card.old", "card.n"}
    assert found["card.old"].recomputed is None
    assert found["card.n"].online is None


def test_a_category_differs_by_its_id() -> None:
    (difference,) = explanation(EVENTS_OF_X, 5, online(5, others={"kind": -1})).differences
    assert difference.online is not None
    assert (difference.online.number, difference.online.bits) == (-1, "0xffffffffffffffff")


def test_events_of_other_partitions_in_a_batch_are_not_behind_a_row() -> None:
    others = [{**event, "amount": event["amount"] + 100, "ts": event["ts"] + 10_000} for event in EVENTS_OF_X]
    parts = [to_archive(1, streams.records(others)), to_archive(0, streams.records(EVENTS_OF_X))]
    archive = pa.concat_tables(parts).sort_by("offset")

    def slices() -> Iterator[ReplayedSlice]:
        return iter(streams.replayed(ENGINE, archive))

    (row,) = recomputed_rows(slices, [(0, 5), (1, 6)])
    published = PublishedRow(digest=1, features=online(5, mean=9.5, last=8.0))
    assert explain(ENGINE, slices, row, published) == explanation(EVENTS_OF_X, 5, published.features)


def test_logged_rows_have_the_digest_of_the_rows_that_were_logged() -> None:
    (row,) = recomputed_rows(lambda: replayed(ENGINE, EVENTS_OF_X), [(0, 5)])
    assert rows_of(ENGINE, [online(5), online(5, n=7.0)]).digests().tolist()[0] == row.digest
    assert rows_of(ENGINE, [online(5, n=7.0)]).digests().tolist() != [row.digest]
    assert len(rows_of(ENGINE, []).digests()) == 0


def test_each_feature_has_its_rows_and_mismatches_and_the_first_with_values_is_explained() -> None:
    (piece,) = replayed(ENGINE, EVENTS_OF_X)
    digests = RowDigests(partitions=np.zeros(6, np.int64), offsets=np.arange(6), digests=piece.digests)
    wrong = digests.digests.copy()
    wrong[[1, 3, 5]] += np.uint64(1)
    report = compare(
        RowDigests(partitions=digests.partitions, offsets=digests.offsets, digests=wrong), digests
    )
    published = {
        (0, 1): [PublishedRow(digest=1, features=None)],
        (0, 3): [
            PublishedRow(digest=2, features=online(3)),
            PublishedRow(digest=3, features=online(3, n=7.0, last=8.0)),
        ],
        (0, 5): [PublishedRow(digest=4, features=online(5, n=7.0))],
    }
    report = explained(report, ENGINE, lambda: replayed(ENGINE, EVENTS_OF_X), published)
    assert {name for name, each in report.features.items() if each.mismatches} == {"card.n", "card.last"}
    assert {each.rows for each in report.features.values()} == {5}  # of row 1 nobody knows
    assert report.features["card.n"].mismatches == 2
    assert report.first is not None
    assert (report.first.offset, report.first.online_digest) == (3, "0000000000000003")


def test_without_a_difference_every_feature_has_all_rows() -> None:
    (piece,) = replayed(ENGINE, EVENTS_OF_X)
    digests = RowDigests(partitions=np.zeros(6, np.int64), offsets=np.arange(6), digests=piece.digests)
    report = explained(compare(digests, digests), ENGINE, lambda: replayed(ENGINE, EVENTS_OF_X), {})
    assert set(report.features) == {*ENGINE.float_columns, *ENGINE.category_columns}
    assert {(each.rows, each.mismatches) for each in report.features.values()} == {(6, 0)}
    assert report.first is None

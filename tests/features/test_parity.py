import json
from datetime import timedelta
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from features.archive import to_archive
from features.engine import Engine
from features.featureset import FeatureSet
from features.kinds import count, mean, seconds_since_last
from features.parity import RowDigests, compare
from features.windows import Window
from tests.features import oracle, streams
from tests.features.oracle import Oracle

S = timedelta(seconds=1)
ENGINE = Engine(
    streams.schema(),
    [
        FeatureSet(
            key="card",
            features={
                "n": count(window=Window(60 * S, 5 * S)),
                "mean": mean("amount", window=Window(10 * S, 5 * S)),
                "since": seconds_since_last(),
            },
        )
    ],
)


def digests(events: list[dict[str, Any]]) -> RowDigests:
    parts = [
        RowDigests(
            partitions=np.zeros(len(piece), np.int64),
            offsets=piece.batch.offsets[piece.events],
            digests=piece.digests,
        )
        for piece in streams.replayed(ENGINE, to_archive(0, streams.records(events)))
    ]
    return RowDigests.join(parts)


def brute_force(events: list[dict[str, Any]]) -> list[str]:
    """Every row as float32 text, by the oracle."""
    judge = Oracle(
        key="card",
        readers=[
            oracle.count(60_000, 5000),
            oracle.mean("amount", 10_000, 5000),
            oracle.seconds_since_last(),
        ],
        max_late=20_000,
    )
    return [json.dumps([str(np.float32(value)) for value in judge.row(event)]) for event in events]


@settings(max_examples=80)
@given(events=streams.streams(max_size=40), at=st.integers(0, 39), amount=st.sampled_from([None, 3.25, -9.0]))
def test_altering_one_archived_event_reports_exactly_the_rows_that_brute_force_names(
    events: list[dict[str, Any]], at: int, amount: float | None
) -> None:
    if not events:
        return
    altered = [dict(event) for event in events]
    altered[at % len(events)]["amount"] = amount
    altered[at % len(events)]["card"] = "card-0"
    report = compare(digests(events), digests(altered))
    expected = [
        i for i, (a, b) in enumerate(zip(brute_force(events), brute_force(altered), strict=True)) if a != b
    ]
    assert [offset for _, offset in report.mismatched] == expected
    assert report.rows == len(events)
    assert report.holds == (not expected)


def rows(*items: tuple[int, int, int]) -> RowDigests:
    partitions, offsets, found = zip(*items, strict=True) if items else ((), (), ())
    return RowDigests(
        partitions=np.array(partitions, np.int64),
        offsets=np.array(offsets, np.int64),
        digests=np.array(found, np.uint64),
    )


def test_missing_extra_repeated_and_contradicting_rows_are_told_apart() -> None:
    published = rows((0, 5, 1), (0, 6, 2), (1, 5, 3), (0, 5, 1), (0, 6, 9), (2, 0, 4))
    recomputed = rows((1, 5, 3), (0, 5, 1), (0, 6, 2), (0, 7, 8))
    report = compare(published, recomputed)
    assert (report.rows, report.repeated) == (3, 2)
    assert report.mismatched == ()
    assert report.missing == ((0, 7),)
    assert report.extra == ((2, 0),)
    assert report.contradicting == ((0, 6),)
    assert not report.holds


def test_nothing_agrees_with_nothing() -> None:
    assert compare(rows(), rows()).holds


def test_a_row_whose_record_is_a_dead_letter_is_not_missing() -> None:
    report = compare(rows((0, 1, 7)), rows((0, 1, 7), (0, 2, 8), (1, 2, 9)))
    assert report.missing == ((0, 2), (1, 2))
    accounted = report.without({(0, 2), (5, 5)})
    assert (accounted.missing, accounted.refused, accounted.holds) == (((1, 2),), ((0, 2),), False)
    assert report.without({(0, 2), (1, 2)}).holds

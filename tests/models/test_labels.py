import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.expressions import col
from models.labels import LabelJoin, Labels
from tests.features import streams

times = st.integers(0, 30)
keys = st.integers(0, 2)
HORIZON = 10


def labels(**changed: Any) -> Labels:
    declared: dict[str, Any] = {
        "key": "shop",
        "when": col("kind") == "refund",
        "value": col("amount"),
        "horizon": timedelta(milliseconds=HORIZON),
    }
    return Labels(**(declared | changed))


def expected(
    row: tuple[int, int], all_labels: list[tuple[int, int, float]], wins: str, without: str
) -> float:
    key, time = row
    found = [
        (when, i, value)
        for i, (owner, when, value) in enumerate(all_labels)
        if owner == key and time <= when <= time + HORIZON
    ]
    if not found:
        return math.nan if without == "missing" else 0.0
    if wins == "first":
        return min(found, key=lambda item: (item[0], item[1]))[2]
    return max(found, key=lambda item: (item[0], item[1]))[2]


@given(
    rows=st.lists(st.tuples(keys, times), max_size=12),
    found=st.lists(st.tuples(keys, times, st.sampled_from([0.0, 1.0, 2.5])), max_size=12),
    wins=st.sampled_from(["first", "last"]),
    without=st.sampled_from(["missing", "negative"]),
    data=st.data(),
)
def test_a_stream_in_any_cuts_gives_every_row_the_label_that_brute_force_gives(
    rows: list[tuple[int, int]],
    found: list[tuple[int, int, float]],
    wins: str,
    without: str,
    data: st.DataObject,
) -> None:
    """Rows and labels come in order of time, as a stream brings them; horizons close as the watermark moves."""
    join = LabelJoin(labels(wins=wins, without=without))
    timeline = sorted(
        [(time, 0, i) for i, (_, time) in enumerate(rows)]
        + [(time, 1, i) for i, (_, time, _) in enumerate(found)]
    )
    closed: dict[int, float] = {}
    for time, is_label, i in timeline:
        if is_label:
            owner, when, value = found[i]
            join.add_labels(np.array([owner]), np.array([when]), np.array([value]))
        else:
            join.add_rows(np.array([rows[i][0]]), np.array([rows[i][1]]), np.array([i]))
        if data.draw(st.booleans()):
            taken = join.close(time)
            closed.update(zip(taken.rows.tolist(), taken.labels.tolist(), strict=True))
    taken = join.close()
    closed.update(zip(taken.rows.tolist(), taken.labels.tolist(), strict=True))
    in_order = sorted(found, key=lambda label: label[1])
    assert join.waiting == 0
    for i, row in enumerate(rows):
        np.testing.assert_equal(closed[i], expected(row, in_order, wins, without))


def test_a_row_counts_when_its_horizon_closes_and_not_when_its_label_comes() -> None:
    join = LabelJoin(labels())
    join.add_rows(np.array([1]), np.array([100]), np.array([7]))
    join.add_labels(np.array([1]), np.array([101]), np.array([1.0]))
    assert len(join.close(110).rows) == 0
    assert join.close(111).rows.tolist() == [7]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": "amount"}, "Labels key: field 'amount' is a float"),
        ({"when": col("amount")}, "neither true nor false"),
        ({"value": col("shop")}, "is a text"),
        ({"horizon": timedelta(0)}, "is not positive"),
    ],
)
def test_labels_that_cant_be_computed_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(Misdeclared, match=message):
        labels(**changed).check(streams.schema())

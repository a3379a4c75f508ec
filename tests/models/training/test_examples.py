from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from features.errors import Misdeclared
from models.training.examples import split
from tests.models import shop
from tests.models.training.tables import DAY, START, plan, replayed

TABLE = replayed()


def test_spans_are_cut_by_event_time_and_rows_without_label_left_out_and_counted() -> None:
    splits = split(TABLE, shop.engine(), plan())
    times, labels = TABLE["event_time"].to_numpy(), TABLE["label"].to_numpy()
    known = ~np.isnan(labels)
    day = (times - int(START.timestamp() * 1000)) / 86_400_000
    for name, part, inside in (
        ("train", splits.train, day < 6),
        ("choose", splits.choose, (day >= 6) & (day < 8)),
        ("test", splits.test, day >= 8),
    ):
        span = splits.data.spans[name]
        assert len(part) == span.rows == int((known & inside).sum())
        assert span.positives == labels[known & inside].sum()
    assert splits.data.rows + splits.data.without_label == len(TABLE)
    assert splits.data.spans["choose"].begin == START + 6 * DAY
    assert splits.data.spans["choose"].end == START + 8 * DAY


def test_the_order_and_digest_do_not_depend_on_partitions() -> None:
    halves = [TABLE.filter(pc.equal(pc.bit_wise_and(TABLE["offset"], 1), bit)) for bit in (1, 0)]
    once, again = (split(table, shop.engine(), plan()) for table in (TABLE, pa.concat_tables(halves)))
    assert once.data == again.data
    np.testing.assert_array_equal(once.train.block, again.train.block)
    np.testing.assert_array_equal(once.test.ids, again.test.ids)


@pytest.mark.parametrize("column", ["event_time", "features_digest", "label"])
def test_the_digest_covers_times_features_and_labels(column: str) -> None:
    values = TABLE[column].to_numpy().copy()
    values[2000] = 1 - values[2000] if column == "label" else values[2000] + 1
    changed = TABLE.set_column(TABLE.schema.get_field_index(column), column, pa.array(values))
    assert (
        split(changed, shop.engine(), plan()).data.digest != split(TABLE, shop.engine(), plan()).data.digest
    )


def test_columns_may_be_selected_and_a_misspelt_one_is_named() -> None:
    train = split(TABLE, shop.engine(), plan()).train
    selected = train.select(["city", "card.n"])
    assert (selected.float_columns, selected.category_columns) == (("card.n",), ("city",))
    np.testing.assert_array_equal(selected.block[:, 0], train.block[:, 1])
    np.testing.assert_array_equal(selected.ids[:, 0], train.ids[:, 1])
    with pytest.raises(Misdeclared, match=r"'card\.m'; did you mean 'card\.n'"):
        train.select(["card.m"])


def _with_labels(value: float) -> pa.Table:
    labels = pa.array(np.full(len(TABLE), value))
    return TABLE.set_column(TABLE.schema.get_field_index("label"), "label", labels)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (TABLE.drop_columns(["card.n"]), {}, r"no column 'card\.n'; train on rows that replay made"),
        (TABLE.drop_columns(["label"]), {}, "no column 'label'"),
        (_with_labels(17.5), {}, r"A label is 17\.5; this trains classifiers"),
        (_with_labels(0), {}, "The train span has 2.* labelled rows, 0 of them positive"),
        (TABLE, {"choose_until": START + timedelta(days=40)}, "The test span has 0 labelled rows"),
        (TABLE.slice(0, 0), {}, "The train span has 0 labelled rows"),
    ],
)
def test_a_table_that_can_not_be_trained_on_is_refused(
    table: pa.Table, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misdeclared, match=message):
        split(table, shop.engine(), plan(**changes))

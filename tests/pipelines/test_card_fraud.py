"""The fraud pipeline: its rows are those of brute force, its labels those of the stream."""

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from pipelines.card_fraud import DAY, WINDOWS, pipeline
from pipelines.datasets.card_payments_json import records
from pipelines.replay import replay
from tests.features import oracle, placed

EVENTS, CARDS = 10_000, 150


@cache
def recorded() -> pa.Table:
    """Three weeks of few cards, as the topic would hold them."""
    made = pa.concat_tables(records(EVENTS, 11, CARDS))
    return placed.archive(made, pipeline.source.schema, pipeline.source.partitions)


def decoded(table: pa.Table) -> list[dict[str, Any]]:
    return [{"amount": None, **msgspec.json.decode(value)} for value in table["value"].to_pylist()]


def is_payment(event: oracle.Event) -> bool:
    return event["kind"] == "payment"


def or_else(read: oracle.Reader, missing: float) -> oracle.Reader:
    return lambda key, now: missing if math.isnan(value := read(key, now)) else value


def brute_force() -> oracle.Oracle:
    """Windows of 10 min, 1 h and 24 h in tiles of 30 s, 5 min and 2 h."""
    windows = list(zip((600_000, 3_600_000, 86_400_000), (30_000, 300_000, 7_200_000), strict=True))
    readers = [oracle.count(*window, where=is_payment) for window in windows]
    readers += [oracle.sum_("amount", *window) for window in windows]
    readers += [or_else(oracle.mean("amount", *window), 0.0) for window in windows]
    readers += [or_else(oracle.seconds_since_last(where=is_payment), DAY)]
    return oracle.Oracle(key="card", readers=readers, max_late=60_000)


def test_twelve_columns_have_the_names_that_are_documented() -> None:
    assert pipeline.engine.float_columns == (
        "amount", "hour",
        "card.count_10m", "card.count_1h", "card.count_1d", "card.sum_10m", "card.sum_1h", "card.sum_1d",
        "card.mean_10m", "card.mean_1h", "card.mean_1d", "card.since_last",
    )  # fmt: skip
    assert not pipeline.engine.category_columns
    assert [timedelta(minutes=10), timedelta(hours=1), timedelta(hours=24)] == list(WINDOWS)


def test_replayed_rows_are_those_of_brute_force() -> None:
    rows = replay(pipeline, recorded())
    columns = np.column_stack([rows[name].to_numpy() for name in pipeline.engine.float_columns])
    wanted = []
    for _, part in placed.parts(recorded()):
        reader = brute_force()
        for event in decoded(part):
            row = reader.row(event)
            if is_payment(event):
                hour = datetime.fromtimestamp(event["ts"] / 1000, UTC).hour
                wanted.append([event["amount"], hour, *row])
    np.testing.assert_allclose(columns, np.array(wanted), rtol=1e-6)
    assert (columns[:, 2] > 0).mean() > 0.02


def test_labels_are_the_chargebacks_and_a_payment_is_good_when_four_days_have_passed() -> None:
    rows, events = replay(pipeline, recorded()), decoded(recorded())
    charged_back = {event["payment_id"] for event in events if event["kind"] == "chargeback"}
    newest = max(event["ts"] for event in events)
    for name, time, label in zip(
        rows["label_key"].to_pylist(), rows["event_time"].to_pylist(), rows["label"].to_pylist(), strict=True
    ):
        is_closed = time + 4 * 86_400_000 < newest
        assert label == (float(name in charged_back) if is_closed else None)
    assert sum(each or 0 for each in rows["label"].to_pylist()) > 20
    assert rows["label"].null_count > 1000

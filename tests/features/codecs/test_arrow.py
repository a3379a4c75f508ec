from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from features.archive import to_archive
from features.codecs.arrow import ArrowCodec
from features.errors import Misdeclared
from features.replay import row_schema
from features.schema import EventTime, Field, Schema
from tests.features import streams
from tests.features.test_engine import MIXED


def typed(events: list[dict[str, Any]], **types: pa.DataType) -> pa.Table:
    names = {
        "card": pa.string(),
        "shop": pa.string(),
        "ts": pa.int64(),
        "amount": pa.float64(),
        "kind": pa.string(),
    } | types
    return pa.table({name: pa.array([event[name] for event in events], kind) for name, kind in names.items()})


def replayed(table: pa.Table) -> pa.Table:
    batches = [
        pa.record_batch(piece.arrays("shop"), schema=row_schema(MIXED, "shop"))
        for piece in streams.replayed(MIXED, table)
    ]
    return pa.Table.from_batches(batches, schema=row_schema(MIXED, "shop"))


@settings(max_examples=60)
@given(events=streams.streams())
def test_typed_events_give_the_same_bits_as_their_json(events: list[dict[str, Any]]) -> None:
    raw = replayed(to_archive(0, streams.records(events)))
    dictionary = pa.dictionary(pa.int32(), pa.string())
    for table in (
        typed(events),
        typed(events, shop=dictionary, kind=pa.large_string(), amount=pa.float32()),
        typed(events, ts=pa.timestamp("ms", "UTC")),
    ):
        np.testing.assert_array_equal(replayed(table)["features_digest"], raw["features_digest"])
        assert replayed(table)["label_key"].to_pylist() == raw["label_key"].to_pylist()


def test_a_null_in_a_required_field_is_malformed() -> None:
    table = typed([{"card": "a", "shop": None, "ts": 1, "amount": 1.0, "kind": kind} for kind in ("x", None)])
    (piece,) = streams.replayed(MIXED, table)
    assert {position: malformed.detail for position, malformed in piece.batch.malformed.items()} == {
        (0, 1): "the row has no 'kind'"
    }


def test_a_finer_time_is_rounded_down() -> None:
    schema = Schema(
        fields=[Field(name="k", type=str), Field(name="t", type=int)],
        key="k",
        time=EventTime(field="t", unit="s"),
    )
    times = pa.array([datetime(1969, 12, 31, 23, 59, 58, 999_999, UTC)], pa.timestamp("us", "UTC"))
    decoded = ArrowCodec(schema).decode(pa.table({"k": ["a"], "t": times}))
    assert decoded.words[1].tolist() == [-2]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (typed([]).drop_columns(["kind"]), "The table has no column 'kind'"),
        (typed([], amount=pa.string()), "Column 'amount' is string, and the field is a float; cast it"),
        (typed([], shop=pa.int64()), "Column 'shop' is int64, and the field is a str; cast it"),
    ],
)
def test_a_table_of_another_shape_is_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        streams.replayed(MIXED, table)
    assert message in str(refused.value)

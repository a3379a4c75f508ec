import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from features.archive import to_archive
from features.codecs.arrow import ArrowCodec
from features.codecs.json import Decoded, JsonCodec
from features.errors import Misdeclared
from features.replay import row_schema
from features.schema import EventTime, Field, Schema
from tests.features import streams
from tests.features.codecs.contract import Outcome, outcomes
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


NESTED = Schema(
    fields=[
        Field(name="k", type=int, path="card.id"),
        Field(name="t", type=int, path="meta.at"),
        Field(name="price", type=float, path="items[1].price", optional=True, quoted=True),
        Field(name="shop", type=str, path='["shop.name"]', optional=True),
        Field(name="ok", type=bool, path="card.more.ok", optional=True),
    ],
    key="k",
    time=EventTime(field="t"),
)
ROWS: list[dict[str, Any]] = [
    {"card": {"id": 1, "more": {"ok": True}}, "meta": {"at": 5}, "items": [{"price": "1.50"}, {"price": "2.50"}], "shop.name": "a"},
    {"card": {"id": -2, "more": {"ok": None}}, "meta": {"at": 6}, "items": [{"price": "9"}], "shop.name": None},
    {"card": {"id": 2**62 + 1, "more": None}, "meta": {"at": 7}, "items": None, "shop.name": "größe"},
    {"card": {"id": 4, "more": None}, "meta": {"at": 8}, "items": [None, None], "shop.name": ""},
    {"card": {"id": None, "more": None}, "meta": {"at": 8}, "items": [], "shop.name": ""},
    {"card": {"id": 4, "more": None}, "meta": None, "items": [None, {"price": None}], "shop.name": ""},
    {"card": {"id": 4, "more": None}, "meta": {"at": 8}, "items": [None, {"price": "1,5"}], "shop.name": ""},
]  # fmt: skip


def values(schema: Schema, decoded: Decoded) -> list[Outcome]:
    """Words and texts of each row, or why it is malformed, in a word."""
    return [
        found.partition(":")[0] if isinstance(found, str) else found for found in outcomes(schema, decoded)
    ]


@pytest.mark.parametrize("decimal", [False, True])
def test_a_path_goes_into_structs_and_lists_as_into_json(decimal: bool) -> None:
    rows = ROWS[: 6 if decimal else 7]
    read = Decimal if decimal else str
    items = [
        row["items"] and [item and {"price": item["price"] and read(item["price"])} for item in row["items"]]
        for row in rows
    ]
    price = pa.decimal128(20, 2) if decimal else pa.string()
    others = {name: pa.array([row[name] for row in rows]) for name in ("card", "meta", "shop.name")}
    table = pa.table({**others, "items": pa.array(items, pa.list_(pa.struct({"price": price})))})
    ArrowCodec(NESTED).check(table.schema)
    by_json = values(NESTED, JsonCodec(NESTED).decode([json.dumps(row).encode() for row in rows]))
    assert values(NESTED, ArrowCodec(NESTED).decode(table)) == by_json
    for start, end in ((1, 3), (2, 6), (6, 6)):
        piece = ArrowCodec(NESTED).decode(table.slice(start, end - start))
        assert values(NESTED, piece) == by_json[start:end]


def test_a_column_of_the_fields_name_does_where_the_path_is_not_there() -> None:
    table = pa.table({"k": [7], "t": [8], "card": ["no struct"]})
    ArrowCodec(NESTED).check(table.schema)
    assert ArrowCodec(NESTED).decode(table).words[:2].tolist() == [[7], [8]]


NUMBERS = Schema(
    fields=[Field(name="k", type=str), Field(name="t", type=int), Field(name="x", type=float, optional=True)],
    key="k",
    time=EventTime(field="t", unit="ns"),
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([2**53 + 1, -(2**63), None]), [float(2**53), -float(2**63), None]),
        (pa.array([2**64 - 1, 2**53 + 3, 0], pa.uint64()), [float(2**64), float(2**53 + 4), 0.0]),
        (pa.array([math.nan, -0.0, 5e-324]), [None, -0.0, 5e-324]),
        (pa.array([math.inf, -math.inf, 1.0]), ["out_of_range", "out_of_range", 1.0]),
        (pa.array([0.1, 1.5, None], pa.float32()), [float(np.float32(0.1)), 1.5, None]),
        (pa.array(["0.10", None, "-12345678901234567.89"]).cast(pa.decimal128(30, 2)), [0.1, None, -12345678901234567.89]),
    ],
    ids=str,
)  # fmt: skip
def test_a_typed_number_has_the_meaning_of_its_json(column: pa.Array, expected: list[Any]) -> None:
    table = pa.table({"k": ["a"] * 3, "t": [1] * 3, "x": column})
    ArrowCodec(NUMBERS).check(table.schema)
    decoded = ArrowCodec(NUMBERS).decode(table)
    for row, wanted in enumerate(expected):
        if isinstance(wanted, str):
            assert str(decoded.malformed[row]) == f"{wanted}: Number out of range - at `$.x`"
        elif wanted is None:
            assert not decoded.valid[2, row]
        else:
            assert decoded.words[2].view(np.float64)[row].tobytes() == np.float64(wanted).tobytes()


def test_an_integer_beyond_64_bits_harms_only_its_row() -> None:
    for column in (
        pa.array([2**63, 1, 2**64 - 1], pa.uint64()),
        pa.array(["9223372036854775808", "1", "-99999999999999999999"]).cast(pa.decimal128(30, 0)),
        pa.array([10**13, 10**3, -(10**13)], pa.timestamp("ms", "UTC")),
    ):
        table = pa.table({"k": ["a"] * 3, "t": column})
        ArrowCodec(NUMBERS).check(table.schema)
        decoded = ArrowCodec(NUMBERS).decode(table)
        assert {row: malformed.reason for row, malformed in decoded.malformed.items()} == {
            0: "out_of_range",
            2: "out_of_range",
        }
        assert decoded.words[1, 1] == (1 if not pa.types.is_timestamp(column.type) else 10**9)


def test_a_text_that_is_too_large_and_a_null_in_a_dictionary_harm_only_their_rows() -> None:
    table = pa.table({"k": ["a", "b" * 2**24, "c"], "t": [1, 2, 3]})
    for column in (table["k"].combine_chunks(), table["k"].combine_chunks().dictionary_encode()):
        decoded = ArrowCodec(NUMBERS).decode(table.set_column(0, "k", column))
        assert {row: malformed.reason for row, malformed in decoded.malformed.items()} == {1: "too_large"}
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    decoded = ArrowCodec(NUMBERS).decode(table.set_column(0, "k", dictionary))
    assert {row: malformed.reason for row, malformed in decoded.malformed.items()} == {1: "missing_field"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (typed([]).drop_columns(["kind"]), "The table has no column 'kind'"),
        (
            typed([], ts=pa.decimal128(10, 2)),
            "Column 'ts' is decimal128(10, 2), and the field is a int; cast it",
        ),
        (typed([], amount=pa.string()), "Column 'amount' is string, and the field is a float; cast it"),
        (typed([], shop=pa.int64()), "Column 'shop' is int64, and the field is a str; cast it"),
    ],
)
def test_a_table_of_another_shape_is_refused(table: pa.Table, message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        streams.replayed(MIXED, table)
    assert message in str(refused.value)

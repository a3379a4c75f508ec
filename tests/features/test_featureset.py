import math
from datetime import timedelta
from typing import Any

import pytest

from features.engine import Engine
from features.errors import Misdeclared
from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import (
    category,
    count,
    derived,
    last,
    last_category,
    mean,
    ratio,
    raw,
    seconds_since_last,
    sum_,
)
from features.kinds.kind import all_kinds
from features.schema import EventTime, Field, Schema
from features.windows import Window, short_name
from tests.features import streams

H = timedelta(hours=1)
NOT_A_KIND: Any = "mean"
NOT_A_TYPE: Any = bytes
NOT_A_UNIT: Any = "min"


def engine(*sets: FeatureSet, **options: Any) -> Engine:
    return Engine(streams.schema(), sets, **options)


def keyed(**features: Any) -> FeatureSet:
    return FeatureSet(key="card", features=features)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: engine(keyed(x=mean("amuont", window=H))), "Feature 'x' of 'card': There is no field 'amuont' in the schema; did you mean 'amount'?"),
        (lambda: engine(keyed(x=mean("shop", window=H))), "mean of the text shop; it needs numbers"),
        (lambda: engine(keyed(x=last("shop"))), "last of the text shop; it needs numbers"),
        (lambda: engine(keyed(x=last_category("amount"))), "category of 'amount', which is a float; use raw() for numbers"),
        (lambda: engine(keyed(x=ratio(col("amount"), window=H))), "ratio of amount, which is neither true nor false"),
        (lambda: engine(keyed(x=count(window=H, where=col("amount")))), "where=amount is neither true nor false"),
        (lambda: engine(keyed(x=count())), "count has no window; give window="),
        (lambda: engine(keyed(x=count(window=timedelta(days=91)))), "not between 1 second and 90 days"),
        (lambda: Window(H, 2 * H), "tile 2h is longer than its length"),
        (lambda: Window(H, timedelta(minutes=7)), "is no multiple of its tile"),
        (lambda: Window(timedelta(days=90), timedelta(seconds=1)), "at most 20000: use a longer tile"),
        (lambda: Window(H, timedelta(milliseconds=1500)), "not a whole number of seconds"),
        (lambda: FeatureSet(features={"x": count(window=H)}), "has no key="),
        (lambda: FeatureSet(key="card", features={"x": raw("amount")}), "put it into a FeatureSet without key="),
        (lambda: FeatureSet(key="card", features={}), "has no features"),
        (lambda: FeatureSet(key="card", features={"x": NOT_A_KIND}), "use a kind of features.kinds"),
        (lambda: FeatureSet(key="card", features={"x": last("amount")}, ttl=timedelta(0)), "it has to be positive"),
        (lambda: engine(FeatureSet(key="shop", features={"x": last("amount")})), "without the partition key 'card'"),
        (lambda: engine(FeatureSet(key=("card", "amount"), features={"x": last("amount")})), "key: field 'amount' is a float"),
        (lambda: engine(keyed(x=last("amount")), keyed(x=last("amount"))), "Two features have the name 'card.x'"),
        (lambda: engine(FeatureSet(features={"label": raw("amount")})), "can't be called 'label'"),
        (lambda: engine(FeatureSet(features={"x": derived(col("shop"))})), "derived of the text shop"),
        (lambda: engine(FeatureSet(features={"x": category("ts")})), "category of 'ts', which is a int"),
        (lambda: engine(keyed(x=last("amount")), score_when=col("amount")), "score_when=amount: it is neither true nor false"),
        (lambda: engine(keyed(x=last("amount")), score_when=col("amout") > 1), "score_when=(amout > 1): There is no field 'amout'"),
        (lambda: engine(FeatureSet(key=("card", "shp"), features={"x": last("amount")})), "FeatureSet 'card_shp' key: There is no field 'shp'"),
        (lambda: Window(-H), "Window length -1h is not between"),
        (engine, "at least one FeatureSet"),
    ],
)  # fmt: skip
def test_what_cant_be_computed_is_refused_with_the_field_and_the_fix(declare: Any, message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        declare()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Field(name="a b", type=str), "is not an identifier; name it and give its path="),
        (lambda: Field(name="a", type=NOT_A_TYPE), "use one of str, int, float, bool"),
        (lambda: EventTime(field="t", unit=NOT_A_UNIT), "unit 'min' is unknown"),
        (lambda: EventTime(field="t", max_late=timedelta(-1)), "max_late is negative"),
        (lambda: schema(key="nope"), "Schema key: There is no field 'nope'"),
        (lambda: schema(key="x"), "Schema key: field 'x' is a float; it has to be str or int"),
        (lambda: schema(time="k"), "Schema time.field: field 'k' is a str; it has to be int or float"),
        (lambda: schema(time="maybe"), "time field 'maybe' is optional"),
        (lambda: schema(more=Field(name="k", type=int)), "declares 'k' more than once"),
        (lambda: schema(more=Field(name="z", type=int, path="k.z")), "one holds the other"),
        (lambda: schema(more=Field(name="z", type=int, path="k")), "two fields with one path"),
    ],
)
def test_a_schema_that_cant_be_right_is_refused(declare: Any, message: str) -> None:
    with pytest.raises(Misdeclared) as refused:
        declare()
    assert message in str(refused.value)


def schema(key: str = "k", time: str = "t", more: Field | None = None) -> Schema:
    fields = [
        Field(name="k", type=str),
        Field(name="t", type=int),
        Field(name="x", type=float),
        Field(name="maybe", type=int, optional=True),
    ]
    return Schema(fields=[*fields, *([more] if more else [])], key=key, time=EventTime(field=time))


@pytest.mark.parametrize(
    ("length", "tile"),
    [
        (timedelta(seconds=1), 1),
        (timedelta(seconds=90), 5),
        (timedelta(minutes=10), 30),
        (H, 300),
        (24 * H, 7200),
        (timedelta(days=90), 86400),
    ],
)
def test_the_default_tile_is_the_longest_that_fits_twelve_times(length: timedelta, tile: int) -> None:
    assert Window(length).tile == timedelta(seconds=tile)


def test_over_names_each_feature_by_its_window() -> None:
    named = over(
        [timedelta(minutes=10), Window(24 * H, H), timedelta(seconds=90)], n=count(), amount=mean("amount")
    )
    assert list(named) == ["n_10m", "n_1d", "n_90s", "amount_10m", "amount_1d", "amount_90s"]
    assert short_name(timedelta(milliseconds=1500)) == "1500ms"


def test_columns_follow_the_sets_and_carry_their_names() -> None:
    compiled = engine(
        FeatureSet(features={"amount": raw("amount"), "shop": category("shop")}),
        keyed(since=seconds_since_last(), shop=last_category("shop")),
        FeatureSet(key=("card", "kind"), name="pair", features={"n": count(window=H)}),
    )
    assert compiled.float_columns == ("amount", "card.since", "pair.n")
    assert compiled.category_columns == ("shop", "card.shop")


def test_equal_lanes_are_stored_once() -> None:
    one, three = (
        engine(keyed(a=mean("amount", window=H))),
        engine(
            keyed(
                a=mean("amount", window=H),
                b=sum_("amount", window=H),
                c=count(window=H, where=~col("amount").is_missing()),
            )
        ),
    )
    assert len(one.compiled[0].tables.lanes) == 2
    assert len(three.compiled[0].tables.lanes) == 3


def test_a_set_of_windows_forgets_a_key_when_its_longest_window_has_passed() -> None:
    assert keyed(a=count(window=H), b=count(window=Window(2 * H, H))).expires_after == 3 * H
    assert keyed(a=count(window=H), b=last("amount")).expires_after is None


def test_missing_values_take_the_declared_constant() -> None:
    compiled = engine(
        keyed(a=mean("amount", window=H, missing=-1.0), b=last("amount", missing=7), c=last("amount"))
    )
    row = streams.process(compiled, [{"card": "x", "ts": 0, "kind": "buy"}]).block[0]
    assert row[:2].tolist() == [-1.0, 7.0]
    assert math.isnan(row[2])


def test_every_kind_is_discovered() -> None:
    assert {kind.__name__ for kind in all_kinds()} >= {
        "Category", "Count", "Derived", "First", "FirstCategory", "Last", "LastCategory", "Max", "Mean", "Min", "Ratio", "Raw", "RunningCount", "SecondsSinceLast", "Std", "Sum",
    }  # fmt: skip

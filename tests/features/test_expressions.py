import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.expressions import Expression, col, event_time
from features.program import evaluate
from features.schema import EventTime, Field, Schema
from tests.features import streams

SCHEMA = Schema(
    fields=[
        Field(name="card", type=str, optional=True),
        Field(name="ts", type=int),
        Field(name="x", type=float, optional=True),
        Field(name="y", type=int, optional=True),
        Field(name="b", type=bool, optional=True),
    ],
    key="card",
    time=EventTime(field="ts"),
)
Truth = bool | None
Pair = tuple[Expression, Callable[[Mapping[str, Any]], Any]]


def value_of(expression: Expression, event: Mapping[str, Any]) -> Any:
    """The expression over one event, None where missing."""
    vector = evaluate(streams.columns(SCHEMA, [event]), expression)
    return vector.data[0].item() if vector.valid[0] else None


def both(left: Truth, right: Truth) -> Truth:
    return False if False in (left, right) else None if None in (left, right) else True


def either(left: Truth, right: Truth) -> Truth:
    return True if True in (left, right) else None if None in (left, right) else False


def lifted(calculate: Callable[..., Any]) -> Callable[..., Any]:
    def of(*values: Any) -> Any:
        if None in values:
            return None
        try:
            result = calculate(*values)
        except ZeroDivisionError:
            sign = math.copysign(1, values[0]) * math.copysign(1, values[1])  # a zero has one as well
            return sign * math.inf if values[0] else None
        return None if isinstance(result, float) and math.isnan(result) else result

    return of


numbers: st.SearchStrategy[Pair] = st.recursive(
    st.one_of(
        st.sampled_from(
            [(col("x"), lambda e: e["x"]), (col("y"), lambda e: None if e["y"] is None else float(e["y"]))]
        ),
        st.integers(-3, 3).map(lambda n: (col("x") * 0 + n, lambda e: None if e["x"] is None else float(n))),
    ),
    lambda inner: st.builds(
        lambda op, a, b: (op(a[0], b[0]), lambda e: lifted(op)(a[1](e), b[1](e))),
        st.sampled_from([operator.add, operator.sub, operator.mul, operator.truediv]),
        inner,
        inner,
    ),
    max_leaves=4,
)
truths: st.SearchStrategy[Pair] = st.recursive(
    st.one_of(
        st.builds(
            lambda op, a, b: (op(a[0], b[0]), lambda e: lifted(op)(a[1](e), b[1](e))),
            st.sampled_from([operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]),
            numbers,
            numbers,
        ),
        st.just((col("b"), lambda e: e["b"])),
        st.just((col("card") == "a", lambda e: None if e["card"] is None else e["card"] == "a")),
        st.just((col("card").is_in(["a", "b"]), lambda e: None if e["card"] is None else e["card"] in "ab")),
        numbers.map(lambda n: (n[0].is_missing(), lambda e: n[1](e) is None)),
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: (a[0] & b[0], lambda e: both(a[1](e), b[1](e))), inner, inner),
        st.builds(lambda a, b: (a[0] | b[0], lambda e: either(a[1](e), b[1](e))), inner, inner),
        inner.map(lambda a: (~a[0], lambda e: lifted(operator.not_)(a[1](e)))),
    ),
    max_leaves=5,
)
events = st.fixed_dictionaries(
    {
        "ts": st.just(0),
        "card": st.sampled_from(["a", "b", "c", None]),
        "x": st.sampled_from([None, 0.0, 1.0, -2.5, 3.0]),
        "y": st.sampled_from([None, 0, 1, -2]),
        "b": st.sampled_from([None, True, False]),
    }
)


@given(pair=st.one_of(numbers, truths), event=events)
def test_every_expression_means_what_python_means_with_three_valued_logic(
    pair: Pair, event: dict[str, Any]
) -> None:
    expression, expected = pair
    assert expression.type_in(SCHEMA) in {"number", "integer", "boolean"}
    np.testing.assert_equal(value_of(expression, event), expected(event))


def test_integers_are_compared_beyond_what_a_float_holds() -> None:
    event = {"ts": 0, "card": None, "x": None, "y": 2**53 + 1, "b": None}
    assert value_of(col("y") == 2**53 + 1, event) is True
    assert value_of(col("y") == 2**53, event) is False


def test_event_time_is_a_number_of_milliseconds() -> None:
    event = {"ts": 90_061_000, "card": None, "x": None, "y": None, "b": None}
    assert value_of(event_time(), event) == 90_061_000
    assert value_of(event_time().part("hour", "Asia/Kolkata"), event) == 6


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (col("z") > 1, "no field 'z'"),
        (col("card") > 1, "compares text with something else"),
        (col("card") > "a", "orders texts"),
        (col("card") + 1, "calculates with the text"),
        (col("x") & col("b"), "uses x as true or false"),
        (col("card").part("hour"), "which is no number of milliseconds"),
    ],
)
def test_what_cant_be_computed_is_refused(expression: Expression, message: str) -> None:
    with pytest.raises(Misdeclared, match=message):
        expression.type_in(SCHEMA)


def test_pythons_and_is_refused_with_the_fix() -> None:
    with pytest.raises(Misdeclared, match="has no truth value before there are events"):
        _ = (col("x") > 1) and (col("y") > 1)
    with pytest.raises(Misdeclared, match="can't stand in an expression"):
        _ = col("x") > None  # type: ignore[operator]
    with pytest.raises(Misdeclared, match="use one of hour"):
        event_time().part("century")

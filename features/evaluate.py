"""Expressions over columns: each distinct one is computed once a slice."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns
from features.expressions import (
    Arithmetic,
    Column,
    Comparison,
    EventTimeColumn,
    Expression,
    IsIn,
    IsMissing,
    Literally,
    Logic,
    TimePart,
)
from features.kernels.hashing import xxh64_of
from features.kernels.texts import hash_texts
from features.zones import zone

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide,
}  # fmt: skip
_COMPARISON: dict[str, Callable[..., Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_DAY, _HOUR, _MINUTE = 86_400_000, 3_600_000, 60_000


@dataclass(frozen=True, slots=True)
class Vector:
    """A value for each event.

    Args:
        data: ``(n,)`` float64, int64 (texts: their category id) or bool; undefined where not valid.
        valid: ``(n,) bool``.
    """

    data: NDArray[Any]
    valid: NDArray[np.bool_]

    def floats(self) -> NDArray[np.float64]:
        """``(n,) float64``, NaN where missing."""
        return np.where(self.valid, self.data, np.nan).astype(np.float64, copy=False)

    def is_true(self) -> NDArray[np.bool_]:
        """``(n,) bool``: true and known."""
        return self.data & self.valid


class Evaluator:
    """Evaluates expressions over the columns of one slice."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._known: dict[str, Vector] = {}

    def __call__(self, expression: Expression) -> Vector:
        """The expression's value for each event."""
        text = expression.text
        if text not in self._known:
            self._known[text] = _EVALUATE[type(expression)](self, expression)
        return self._known[text]


def _always(n: int) -> NDArray[np.bool_]:
    return np.ones(n, np.bool_)


def _column(evaluate: Evaluator, it: Column) -> Vector:
    columns = evaluate.columns
    kind, valid = columns.schema[it.name].type, columns.is_valid(it.name)
    if kind is str:
        ids = np.empty(len(columns), np.int64)
        hash_texts(columns.base, columns.word(it.name), valid, ids)
        return Vector(ids, valid.view(np.bool_))
    if kind is float:
        return Vector(columns.number(it.name), valid.view(np.bool_))
    word = columns.word(it.name)
    return Vector(word != 0 if kind is bool else word, valid.view(np.bool_))


def _event_time(evaluate: Evaluator, it: EventTimeColumn) -> Vector:  # noqa: ARG001
    return Vector(evaluate.columns.times, _always(len(evaluate.columns)))


def _literal(evaluate: Evaluator, it: Literally) -> Vector:
    value = np.uint64(xxh64_of(it.value.encode())).astype(np.int64) if isinstance(it.value, str) else it.value
    n = len(evaluate.columns)
    return Vector(np.full(n, value), _always(n))


def _arithmetic(evaluate: Evaluator, it: Arithmetic) -> Vector:
    left, right = evaluate(it.left), evaluate(it.right)
    with np.errstate(all="ignore"):
        data = _ARITHMETIC[it.operator](left.data.astype(np.float64), right.data.astype(np.float64))
    return Vector(data, left.valid & right.valid & ~np.isnan(data))


def _comparison(evaluate: Evaluator, it: Comparison) -> Vector:
    left, right = evaluate(it.left), evaluate(it.right)
    return Vector(_COMPARISON[it.operator](left.data, right.data), left.valid & right.valid)


def _logic(evaluate: Evaluator, it: Logic) -> Vector:
    vectors = [evaluate(part) for part in it.parts]
    if it.operator == "~":
        return Vector(~vectors[0].data, vectors[0].valid)
    decides = it.operator == "|"
    settled = [vector.valid & (vector.data == decides) for vector in vectors]
    data = reduce(operator.or_ if decides else operator.and_, (vector.data for vector in vectors))
    is_settled = reduce(operator.or_, settled)
    valid = is_settled | reduce(operator.and_, (vector.valid for vector in vectors))
    return Vector(np.where(is_settled, decides, data), valid)


def _is_missing(evaluate: Evaluator, it: IsMissing) -> Vector:
    return Vector(~evaluate(it.operand).valid, _always(len(evaluate.columns)))


def _is_in(evaluate: Evaluator, it: IsIn) -> Vector:
    found = reduce(operator.or_, (evaluate(Comparison("==", it.operand, value)).data for value in it.values))
    return Vector(found, evaluate(it.operand).valid)


def _time_part(evaluate: Evaluator, it: TimePart) -> Vector:
    time = evaluate(it.operand)
    with np.errstate(invalid="ignore"):
        utc = np.where(time.valid, time.data, 0).astype(np.int64)
    return Vector(time_part(it.part_name, zone(it.zone_name).local(utc)), time.valid)


def time_part(name: str, local: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(n,) int64`` a part of local times in ms."""
    if name == "day_of_week":
        return (local // _DAY + 3) % 7
    of_day = local % _DAY
    if name == "hour":
        return of_day // _HOUR
    if name == "minute":
        return of_day % _HOUR // _MINUTE
    if name == "minute_of_day":
        return of_day // _MINUTE
    days = local.astype("datetime64[ms]").astype("datetime64[D]")
    if name == "month":
        return days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    since = "datetime64[M]" if name == "day_of_month" else "datetime64[Y]"
    return (days - days.astype(since).astype("datetime64[D]")).astype(np.int64) + 1


_EVALUATE: dict[type[Expression], Callable[[Evaluator, Any], Vector]] = {
    Column: _column,
    EventTimeColumn: _event_time,
    Literally: _literal,
    Arithmetic: _arithmetic,
    Comparison: _comparison,
    Logic: _logic,
    IsMissing: _is_missing,
    IsIn: _is_in,
    TimePart: _time_part,
}

"""Expressions compiled once, run over the columns of each slice.

A `Program` holds every distinct subexpression of what it was asked for, operands first; a slice runs
down the list once, so nothing is computed twice and nothing is looked up by name.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
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
from features.schema import Schema
from features.zones import zone

_DAY, _HOUR, _MINUTE = 86_400_000, 3_600_000, 60_000


@dataclass(frozen=True, slots=True)
class Vector:
    """A value for each event; of a constant, one for all.

    Args:
        data: ``(n,)`` float64, int64 (texts: their category id) or bool; undefined where not valid.
        valid: ``(n,) bool``.
    """

    data: NDArray[Any]
    valid: NDArray[np.bool_]

    def floats(self) -> NDArray[np.float64]:
        """``(n,) float64``, NaN where missing."""
        return np.where(self.valid, self.data, np.nan)

    def is_true(self) -> NDArray[np.bool_]:
        """``(n,) bool``: true and known."""
        return self.data & self.valid


Step = Callable[[Columns, Sequence[Vector]], Vector]


class Program:
    """Computes expressions over slices of one schema.

    Args:
        schema: Of the columns.
        expressions: What to compute.

    Raises:
        Misdeclared: One of them can't be computed from these fields.
    """

    def __init__(self, schema: Schema, expressions: Iterable[Expression]) -> None:
        self._places: dict[str, int] = {}
        self._steps: list[Step] = []
        for expression in expressions:
            expression.type_in(schema)
            self._add(expression, schema)

    def place(self, expression: Expression) -> int:
        """Where the expression's value stands in what `run` returns."""
        return self._places[expression.text]

    def run(self, columns: Columns) -> list[Vector]:
        """The value of every subexpression over a slice."""
        found: list[Vector] = []
        with np.errstate(all="ignore"):
            for step in self._steps:
                found.append(step(columns, found))
        return found

    def _add(self, expression: Expression, schema: Schema) -> int:
        text = expression.text
        if text not in self._places:
            operands = [self._add(operand, schema) for operand in expression.operands()]
            self._steps.append(_COMPILE[type(expression)](expression, operands, schema))
            self._places[text] = len(self._steps) - 1
        return self._places[text]


def evaluate(columns: Columns, expression: Expression) -> Vector:
    """One expression over one slice, ``(n,)``; for what is not on the hot path."""
    program = Program(columns.schema, [expression])
    vector = program.run(columns)[program.place(expression)]
    shape = len(columns)
    return Vector(np.broadcast_to(vector.data, shape), np.broadcast_to(vector.valid, shape))


def _column(it: Column, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001 - one signature
    name, kind = it.name, schema[it.name].type

    def text(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        ids, valid = np.empty(len(columns), np.int64), columns.is_valid(name)
        hash_texts(columns.base, columns.word(name), valid, ids)
        return Vector(ids, valid.view(np.bool_))

    def number(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        return Vector(columns.number(name), columns.is_valid(name).view(np.bool_))

    def integer(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        return Vector(columns.word(name), columns.is_valid(name).view(np.bool_))

    def boolean(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        return Vector(columns.word(name) != 0, columns.is_valid(name).view(np.bool_))

    return {str: text, float: number, int: integer, bool: boolean}[kind]


def _event_time(it: EventTimeColumn, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    return lambda columns, found: Vector(columns.times, _ALWAYS)  # noqa: ARG005


def _literal(it: Literally, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    value = it.value
    data = np.asarray(
        np.uint64(xxh64_of(value.encode())).astype(np.int64) if isinstance(value, str) else value
    )
    vector = Vector(data, _ALWAYS)
    return lambda columns, found: vector  # noqa: ARG005


_ALWAYS: NDArray[np.bool_] = np.asarray(True)
_ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide}
_COMPARISON = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def _arithmetic(it: Arithmetic, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    calculate, (left, right) = _ARITHMETIC[it.operator], operands

    def step(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        a, b = found[left], found[right]
        data = calculate(a.data, b.data, dtype=np.float64)
        return Vector(data, a.valid & b.valid & ~np.isnan(data))

    return step


def _comparison(it: Comparison, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    compare, (left, right) = _COMPARISON[it.operator], operands

    def step(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        a, b = found[left], found[right]
        return Vector(compare(a.data, b.data), a.valid & b.valid)

    return step


def _logic(it: Logic, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    if it.operator == "~":
        (operand,) = operands
        return lambda columns, found: Vector(~found[operand].data, found[operand].valid)  # noqa: ARG005
    (left, right), decides = operands, it.operator == "|"
    combine = np.logical_or if decides else np.logical_and

    def step(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        a, b = found[left], found[right]
        settled = (a.valid & (a.data == decides)) | (b.valid & (b.data == decides))
        return Vector(np.where(settled, decides, combine(a.data, b.data)), settled | (a.valid & b.valid))

    return step


def _is_missing(it: IsMissing, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    (operand,) = operands
    return lambda columns, found: Vector(~found[operand].valid, _ALWAYS)  # noqa: ARG005


def _is_in(it: IsIn, operands: Sequence[int], schema: Schema) -> Step:
    (operand,) = operands
    values = [_literal(value, (), schema) for value in it.values if isinstance(value, Literally)]

    def step(columns: Columns, found: Sequence[Vector]) -> Vector:
        a = found[operand]
        hits = [a.data == value(columns, found).data for value in values]
        return Vector(reduce(operator.or_, hits), a.valid)

    return step


def _time_part(it: TimePart, operands: Sequence[int], schema: Schema) -> Step:  # noqa: ARG001
    (operand,), name, local = operands, it.part_name, zone(it.zone_name)

    def step(columns: Columns, found: Sequence[Vector]) -> Vector:  # noqa: ARG001
        time = found[operand]
        utc = np.where(time.valid, time.data, 0).astype(np.int64)
        return Vector(time_part(name, local.local(utc)), time.valid)

    return step


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


_COMPILE: dict[type[Expression], Callable[[Any, Sequence[int], Schema], Step]] = {
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

"""Expressions compiled once to a table of operations, run over the columns of each slice.

A `Program` holds every distinct subexpression of what it was asked for, operands first; a slice runs
down the table once, in compiled code (`features.kernels.prepare`), so nothing is computed twice.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.columns import Bytes, Columns, Float64s, Int64s
from features.expressions import (
    TIME_PARTS,
    Arithmetic,
    Column,
    Comparison,
    EventTimeColumn,
    Expression,
    FillMissing,
    Hashed,
    IsIn,
    IsMissing,
    Literally,
    Logic,
    TimePart,
    Type,
)
from features.kernels import prepare
from features.kernels.fold import MISSING_ID
from features.kernels.hashing import xxh64_of
from features.schema import Schema
from features.zones import zone

_ARITHMETIC = {"+": prepare.ADD, "-": prepare.SUBTRACT, "*": prepare.MULTIPLY, "/": prepare.DIVIDE}
_COMPARISON = {
    "<": prepare.LESS, "<=": prepare.LESS_EQUAL, ">": prepare.GREATER, ">=": prepare.GREATER_EQUAL,
    "==": prepare.EQUAL, "!=": prepare.NOT_EQUAL,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Every subexpression over ``n`` events, a row each.

    Args:
        data: ``(places, n) int64``: integers, booleans, category ids, and floats as their bits.
        floats: The same memory as ``float64``.
        known: ``(places, n) uint8``: 0 where missing.
    """

    data: Int64s
    floats: Float64s
    known: Bytes


@dataclass(frozen=True, slots=True)
class Vector:
    """A value for each event.

    Args:
        data: ``(n,)`` float64, int64 (texts: their category id) or bool; undefined where not valid.
        valid: ``(n,) bool``.
    """

    data: NDArray[Any]
    valid: NDArray[np.bool_]

    def floats(self) -> Float64s:
        """``(n,) float64``, NaN where missing."""
        return np.where(self.valid, self.data, np.nan)

    def is_true(self) -> NDArray[np.bool_]:
        """``(n,) bool``: true and known."""
        return self.data & self.valid


class Program:
    """Computes expressions over slices of one schema.

    Args:
        schema: Of the columns.
        expressions: What to compute.

    Attributes:
        tables: The first arguments of `features.kernels.prepare.run_program`.

    Raises:
        Misdeclared: One of them can't be computed from these fields.
    """

    def __init__(self, schema: Schema, expressions: Iterable[Expression]) -> None:
        building = _Building(schema)
        for expression in expressions:
            expression.type_in(schema)
            building.add(expression)
        self._places, self._types = building.places, building.types
        zones = [zone(name) for name in building.zones]
        self.tables = (
            np.array(building.operations, np.int64).reshape(-1, 4),
            np.array(building.constants, np.int64),
            np.cumsum([0, *(len(each.starts) for each in zones)]),
            np.concatenate([np.empty(0, np.int64), *(each.starts for each in zones)]),
            np.concatenate([np.empty(0, np.int64), *(each.offsets for each in zones)]),
        )

    def place(self, expression: Expression) -> int:
        """The row of the expression's value."""
        return self._places[expression.text]

    def type(self, expression: Expression) -> Type:
        """Its type."""
        return self._types[self.place(expression)]

    def run(self, columns: Columns) -> Computed:
        """The value of every subexpression over a slice."""
        data = np.empty((len(self._types), len(columns)), np.int64)
        computed = Computed(data=data, floats=data.view(np.float64), known=np.empty(data.shape, np.uint8))
        prepare.run_program(
            *self.tables, MISSING_ID, columns.base, columns.words, columns.valid, columns.times, computed.data,
            computed.floats, computed.known,
        )  # fmt: skip
        return computed


Operation = tuple[int, int, int, int]


class _Building:
    """A program while it is compiled: every distinct subexpression once, operands first."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.operations: list[Operation] = []
        self.types: list[Type] = []
        self.places: dict[str, int] = {}
        self.constants: list[int] = []
        self.zones: list[str] = []

    def add(self, it: Expression) -> int:
        """The place of an expression's value."""
        if it.text not in self.places:
            self._append(it.text, _COMPILE[type(it)](self, it), it.type_in(self.schema))
        return self.places[it.text]

    def add_float(self, it: Expression) -> int:
        """The same, converted if it is an integer or a boolean."""
        place, text = self.add(it), f"float({it.text})"
        if self.types[place] == "number":
            return place
        if text not in self.places:
            self._append(text, (prepare.TO_FLOAT, place, 0, 0), "number")
        return self.places[text]

    def add_integer(self, it: Expression) -> int:
        """The same, rounded down if it is a number."""
        place, text = self.add(it), f"int({it.text})"
        if self.types[place] != "number":
            return place
        if text not in self.places:
            self._append(text, (prepare.TO_INTEGER, place, 0, 0), "integer")
        return self.places[text]

    def _append(self, text: str, operation: Operation, type_: Type) -> None:
        self.operations.append(operation)
        self.types.append(type_)
        self.places[text] = len(self.operations) - 1


def _column(building: _Building, it: Column) -> Operation:
    operation = prepare.TEXT_ID if building.schema[it.name].type is str else prepare.FIELD
    return operation, building.schema.place(it.name), 0, 0


def _event_time(building: _Building, it: EventTimeColumn) -> Operation:  # noqa: ARG001 - one signature
    return prepare.EVENT_TIME, 0, 0, 0


def _literal(building: _Building, it: Literally) -> Operation:
    building.constants.append(_word(it.value))
    return prepare.CONSTANT, len(building.constants) - 1, 0, 0


def _arithmetic(building: _Building, it: Arithmetic) -> Operation:
    return _ARITHMETIC[it.operator], building.add_float(it.left), building.add_float(it.right), 0


def _comparison(building: _Building, it: Comparison) -> Operation:
    is_float = any(side.type_in(building.schema) == "number" for side in it.operands())
    add = building.add_float if is_float else building.add
    return _COMPARISON[it.operator], add(it.left), add(it.right), int(is_float)


def _logic(building: _Building, it: Logic) -> Operation:
    places = [building.add(part) for part in it.parts]
    if it.operator == "~":
        return prepare.NOT, places[0], 0, 0
    return prepare.OR if it.operator == "|" else prepare.AND, places[0], places[1], 0


def _is_missing(building: _Building, it: IsMissing) -> Operation:
    return prepare.IS_MISSING, building.add(it.operand), 0, 0


def _fill_missing(building: _Building, it: FillMissing) -> Operation:
    add = building.add_float if it.type_in(building.schema) == "number" else building.add
    return prepare.FILL_MISSING, add(it.operand), add(it.value), 0


def _hashed(building: _Building, it: Hashed) -> Operation:
    return prepare.HASHED, building.add(it.operand), it.buckets, 0


def _is_in(building: _Building, it: IsIn) -> Operation:
    equals: list[Expression] = [Comparison("==", it.operand, value) for value in it.values]
    place = building.add(reduce(lambda left, right: Logic("|", (left, right)), equals))
    return prepare.OR, place, place, 0


def _time_part(building: _Building, it: TimePart) -> Operation:
    building.zones.append(it.zone_name)
    clock = len(building.zones) - 1
    return prepare.TIME_PART, building.add_integer(it.operand), TIME_PARTS.index(it.part_name), clock


_COMPILE: dict[type[Expression], Callable[[_Building, Any], Operation]] = {
    Column: _column,
    EventTimeColumn: _event_time,
    Literally: _literal,
    Arithmetic: _arithmetic,
    Comparison: _comparison,
    Logic: _logic,
    IsMissing: _is_missing,
    IsIn: _is_in,
    TimePart: _time_part,
    FillMissing: _fill_missing,
    Hashed: _hashed,
}


def evaluate(columns: Columns, expression: Expression) -> Vector:
    """One expression over one slice; for what is not on the hot path."""
    program = Program(columns.schema, [expression])
    computed, place = program.run(columns), program.place(expression)
    data: NDArray[Any] = computed.data[place]
    if program.type(expression) == "number":
        data = computed.floats[place]
    elif program.type(expression) == "boolean":
        data = data != 0
    return Vector(data, computed.known[place].view(np.bool_))


def _word(value: str | float | bool) -> int:  # noqa: FBT001 - a constant of any type
    if isinstance(value, str):
        return int(np.uint64(xxh64_of(value.encode())).astype(np.int64))
    if isinstance(value, float):
        return int(np.float64(value).view(np.int64))
    return int(value)

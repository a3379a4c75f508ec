"""Declared expressions over an event's fields: predicates and derived values that vectorise.

``col("amount") > 100`` is a value, not an answer: it is checked against the schema when a feature set is
compiled, enters the fingerprint by its text, and is evaluated a slice at a time
(`features.program`). What is missing stays missing through arithmetic; a comparison with it is
unknown, and ``&``, ``|``, ``~`` follow Kleene's three-valued logic, as in SQL.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from features.errors import Misdeclared
from features.schema import Schema
from features.zones import zone

Constant = str | int | float | bool
Type = Literal["number", "integer", "boolean", "text"]

MOST_BUCKETS = 2**24
"""A float32 holds every integer up to here."""
TIME_PARTS = ("hour", "minute", "minute_of_day", "day_of_week", "day_of_month", "day_of_year", "month")


class Expression:
    """What ``col`` and its operators build."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def type_in(self, schema: Schema) -> Type:
        """Its type; raises `Misdeclared` if it can't be computed."""
        raise NotImplementedError

    def operands(self) -> Sequence["Expression"]:
        """The expressions that it is made of."""
        return ()

    @property
    def text(self) -> str:
        """Canonical form: equal texts compute equal values."""
        raise NotImplementedError

    def fields(self) -> Iterator[str]:
        """Names of the fields that it reads."""
        for operand in self.operands():
            yield from operand.fields()

    def zones(self) -> Iterator[str]:
        """Names of the time zones that it uses."""
        for operand in self.operands():
            yield from operand.zones()

    def __add__(self, other: "Expression | Constant") -> "Expression":
        return Arithmetic("+", self, as_expression(other))

    def __radd__(self, other: Constant) -> "Expression":
        return Arithmetic("+", as_expression(other), self)

    def __sub__(self, other: "Expression | Constant") -> "Expression":
        return Arithmetic("-", self, as_expression(other))

    def __rsub__(self, other: Constant) -> "Expression":
        return Arithmetic("-", as_expression(other), self)

    def __mul__(self, other: "Expression | Constant") -> "Expression":
        return Arithmetic("*", self, as_expression(other))

    def __rmul__(self, other: Constant) -> "Expression":
        return Arithmetic("*", as_expression(other), self)

    def __truediv__(self, other: "Expression | Constant") -> "Expression":
        return Arithmetic("/", self, as_expression(other))

    def __rtruediv__(self, other: Constant) -> "Expression":
        return Arithmetic("/", as_expression(other), self)

    def __lt__(self, other: "Expression | Constant") -> "Expression":
        return Comparison("<", self, as_expression(other))

    def __le__(self, other: "Expression | Constant") -> "Expression":
        return Comparison("<=", self, as_expression(other))

    def __gt__(self, other: "Expression | Constant") -> "Expression":
        return Comparison(">", self, as_expression(other))

    def __ge__(self, other: "Expression | Constant") -> "Expression":
        return Comparison(">=", self, as_expression(other))

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        return Comparison("==", self, as_expression(other))

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        return Comparison("!=", self, as_expression(other))

    def __and__(self, other: "Expression") -> "Expression":
        return Logic("&", (self, as_expression(other)))

    def __or__(self, other: "Expression") -> "Expression":
        return Logic("|", (self, as_expression(other)))

    def __invert__(self) -> "Expression":
        return Logic("~", (self,))

    def __bool__(self) -> NoReturn:
        raise Misdeclared(
            f"{self.text} has no truth value before there are events; use &, | and ~ for and, or and not"
        )

    def may_be_missing_in(self, schema: Schema) -> bool:
        """Whether an event may be without it; what is calculated may be no number."""
        return any(operand.may_be_missing_in(schema) for operand in self.operands())

    def fill_missing(self, value: Constant) -> "Expression":
        """The value, or this constant where it is missing."""
        return FillMissing(self, as_expression(value))

    def hashed(self, buckets: int) -> "Expression":
        """A text as one of ``buckets`` codes; unlike texts may share one."""
        return Hashed(self, buckets)

    def is_missing(self) -> "Expression":
        """True where the value is missing, never missing itself."""
        return IsMissing(self)

    def is_in(self, values: Sequence[Constant]) -> "Expression":
        """Whether the value is one of these."""
        if isinstance(values, str) or not values:
            raise Misdeclared(
                f"is_in of {self.text} takes a sequence with at least one value, not {values!r}"
            )
        return IsIn(self, tuple(as_expression(value) for value in values))

    def part(self, name: str, zone: str = "UTC") -> "Expression":
        """A part of local time, of a number of ms since the epoch: one of `TIME_PARTS`."""
        return TimePart(self, name, zone)


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A field's value."""

    name: str

    def type_in(self, schema: Schema) -> Type:
        """The type of the field."""
        return {str: "text", int: "integer", float: "number", bool: "boolean"}[schema[self.name].type]  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """Its name."""
        return self.name

    def fields(self) -> Iterator[str]:
        """Itself."""
        yield self.name

    def may_be_missing_in(self, schema: Schema) -> bool:
        """If it is optional."""
        return schema[self.name].optional


@dataclass(frozen=True, slots=True, eq=False)
class EventTimeColumn(Expression):
    """The event time, an integer in ms."""

    def type_in(self, schema: Schema) -> Type:  # noqa: ARG002 - every schema has one
        """An integer."""
        return "integer"

    @property
    def text(self) -> str:
        """A name that no field can have."""
        return "event_time()"


@dataclass(frozen=True, slots=True, eq=False)
class Literally(Expression):
    """A constant."""

    value: Constant

    def type_in(self, schema: Schema) -> Type:  # noqa: ARG002 - a constant is what it is
        """The constant's type."""
        return {str: "text", int: "integer", float: "number", bool: "boolean"}[type(self.value)]  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """As Python writes it."""
        return repr(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic(Expression):
    """``+ - * /`` in float64; a result that is not a number is missing."""

    operator: str
    left: Expression
    right: Expression

    def type_in(self, schema: Schema) -> Type:
        """A number."""
        for operand in self.operands():
            if operand.type_in(schema) == "text":
                raise Misdeclared(f"{self.text} calculates with the text {operand.text}; use numbers")
        return "number"

    def may_be_missing_in(self, schema: Schema) -> bool:  # noqa: ARG002 - whatever the operands are
        """Always: 0 / 0 is no number."""
        return True

    def operands(self) -> Sequence[Expression]:
        """Both sides."""
        return self.left, self.right

    @property
    def text(self) -> str:
        """In parentheses."""
        return f"({self.left.text} {self.operator} {self.right.text})"


@dataclass(frozen=True, slots=True, eq=False)
class FillMissing(Expression):
    """The operand, or a constant where it is missing; never missing itself."""

    operand: Expression
    value: Expression

    def type_in(self, schema: Schema) -> Type:
        """The operand's, or a number if the constant is one."""
        types = {self.operand.type_in(schema), self.value.type_in(schema)}
        if len(types) == 1:
            return types.pop()
        if "text" not in types:
            return "number"
        raise Misdeclared(
            f"{self.text} fills a {self.operand.type_in(schema)} with {self.value.text}; both need one type"
        )

    def operands(self) -> Sequence[Expression]:
        """Both."""
        return self.operand, self.value

    def may_be_missing_in(self, schema: Schema) -> bool:  # noqa: ARG002 - it is what this is for
        """Never."""
        return False

    @property
    def text(self) -> str:
        """As it is called."""
        return f"{self.operand.text}.fill_missing({self.value.text})"


@dataclass(frozen=True, slots=True, eq=False)
class Hashed(Expression):
    """A text's XXH64 scaled to one of so many codes; a float32 holds every one exactly."""

    operand: Expression
    buckets: int

    def __post_init__(self) -> None:
        if not 2 <= self.buckets <= MOST_BUCKETS:
            raise Misdeclared(f"{self.text} has {self.buckets} buckets; it needs from 2 to {MOST_BUCKETS}")

    def type_in(self, schema: Schema) -> Type:
        """An integer."""
        if self.operand.type_in(schema) != "text":
            raise Misdeclared(f"{self.text} hashes {self.operand.text}, which is no text; use it as it is")
        return "integer"

    def operands(self) -> Sequence[Expression]:
        """The text."""
        return (self.operand,)

    @property
    def text(self) -> str:
        """As it is called."""
        return f"{self.operand.text}.hashed({self.buckets})"


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Expression):
    """``< <= > >= == !=``; texts only for equality; unknown if a side is missing."""

    operator: str
    left: Expression
    right: Expression

    def type_in(self, schema: Schema) -> Type:
        """A boolean."""
        types = {operand.type_in(schema) for operand in self.operands()}
        if "text" in types and types != {"text"}:
            raise Misdeclared(f"{self.text} compares text with something else; both sides need one type")
        if "text" in types and self.operator not in {"==", "!="}:
            raise Misdeclared(f"{self.text} orders texts; they can only be compared with == and !=")
        return "boolean"

    def operands(self) -> Sequence[Expression]:
        """Both sides."""
        return self.left, self.right

    @property
    def text(self) -> str:
        """In parentheses."""
        return f"({self.left.text} {self.operator} {self.right.text})"


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Expression):
    """``& | ~`` in three-valued logic."""

    operator: str
    parts: tuple[Expression, ...]

    def type_in(self, schema: Schema) -> Type:
        """A boolean."""
        for part in self.parts:
            if part.type_in(schema) != "boolean":
                raise Misdeclared(f"{self.text} uses {part.text} as true or false; compare it with something")
        return "boolean"

    def operands(self) -> Sequence[Expression]:
        """Its one or two sides."""
        return self.parts

    @property
    def text(self) -> str:
        """In parentheses."""
        if self.operator == "~":
            return f"~{self.parts[0].text}"
        return f"({self.parts[0].text} {self.operator} {self.parts[1].text})"


@dataclass(frozen=True, slots=True, eq=False)
class IsMissing(Expression):
    """True where the operand is missing."""

    operand: Expression

    def type_in(self, schema: Schema) -> Type:
        """A boolean."""
        self.operand.type_in(schema)
        return "boolean"

    def may_be_missing_in(self, schema: Schema) -> bool:  # noqa: ARG002 - it is what this is for
        """Never."""
        return False

    def operands(self) -> Sequence[Expression]:
        """What may be missing."""
        return (self.operand,)

    @property
    def text(self) -> str:
        """As it is called."""
        return f"{self.operand.text}.is_missing()"


@dataclass(frozen=True, slots=True, eq=False)
class IsIn(Expression):
    """Whether the operand equals one of the constants."""

    operand: Expression
    values: tuple[Expression, ...]

    def type_in(self, schema: Schema) -> Type:
        """A boolean."""
        for value in self.values:
            Comparison("==", self.operand, value).type_in(schema)
        return "boolean"

    def operands(self) -> Sequence[Expression]:
        """The operand; the constants are its own."""
        return (self.operand,)

    @property
    def text(self) -> str:
        """As it is called."""
        return f"{self.operand.text}.is_in([{', '.join(value.text for value in self.values)}])"


@dataclass(frozen=True, slots=True, eq=False)
class TimePart(Expression):
    """A part of the local time of a number of ms since the epoch; Monday is day 0 of the week."""

    operand: Expression
    part_name: str
    zone_name: str

    def __post_init__(self) -> None:
        if self.part_name not in TIME_PARTS:
            raise Misdeclared(f"Time part {self.part_name!r} is unknown; use one of {', '.join(TIME_PARTS)}")
        zone(self.zone_name)

    def type_in(self, schema: Schema) -> Type:
        """An integer."""
        if self.operand.type_in(schema) not in {"integer", "number"}:
            raise Misdeclared(
                f"{self.text} takes a part of {self.operand.text}, which is no number of milliseconds"
            )
        return "integer"

    def operands(self) -> Sequence[Expression]:
        """The time."""
        return (self.operand,)

    def zones(self) -> Iterator[str]:
        """Its zone."""
        yield self.zone_name
        yield from self.operand.zones()

    @property
    def text(self) -> str:
        """As it is called."""
        return f"{self.operand.text}.part({self.part_name!r}, {self.zone_name!r})"


def col(name: str) -> Expression:
    """The value of the field ``name``."""
    return Column(name)


def event_time() -> Expression:
    """The event time in ms since the epoch."""
    return EventTimeColumn()


def as_expression(value: object) -> Expression:
    """An expression as it is, a constant as an expression."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, str | int | float | bool):
        return Literally(value)
    raise Misdeclared(f"{value!r} can't stand in an expression; use a column, a text, a number or a boolean")

"""What every kind of feature can do; the kinds beside this file are found by `all_kinds`."""

import importlib
import math
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from features.errors import Misdeclared
from features.expressions import Column, Expression
from features.plan import Fill, Plan
from features.schema import Schema
from features.windows import Window, as_window

ADDED_LATER = {"added_later": True}
"""Metadata of a kind's field that does not enter its description as long as it is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(ABC):
    """A declared feature without its name; it computes one column."""

    def expressions(self) -> Iterator[Expression]:
        """The expressions that it reads."""
        for declared in fields(self):
            value = getattr(self, declared.name)
            if isinstance(value, Expression):
                yield value

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Raise `Misdeclared` if it can't be computed from these fields."""

    @property
    def is_category(self) -> bool:
        """Whether its column is an ``int64`` category id; else it is a ``float32``."""
        return False

    def describe(self) -> dict[str, Any]:
        """Its meaning, as JSON; for fingerprints and manifests."""
        described: dict[str, Any] = {"kind": type(self).__name__}
        for declared in fields(self):
            value = _plain(getattr(self, declared.name))
            if value is not None or "added_later" not in declared.metadata:
                described[declared.name] = value
        return described


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind(Kind):
    """A feature of the event alone: no state."""

    @abstractmethod
    def value(self) -> Expression:
        """What to compute."""

    def expressions(self) -> Iterator[Expression]:
        """What it computes."""
        yield self.value()


Taken = Sequence[tuple[int, Any]]
"""Events that take part, in log order: event time in ms, and the value (a text as its category id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedKind(Kind):
    """A feature of the events before, of the same entity.

    Args:
        where: Only events for which this is true take part.
        missing: What stands for a missing value; NaN by default.
    """

    where: Expression | None = None
    missing: float = math.nan

    @property
    def layout(self) -> int:
        """How often the layout of its state has changed: state of another layout is not taken up."""
        return 0

    def check(self, schema: Schema) -> None:
        """Predicates are booleans."""
        if self.where is not None and self.where.type_in(schema) != "boolean":
            raise Misdeclared(f"where={self.where.text} is neither true nor false; compare it with something")

    @abstractmethod
    def plan(self, plan: Plan) -> None:
        """Ask for the lanes or cells it needs and say how its column is made of them."""

    @abstractmethod
    def meaning(self, taken: Taken, now: int) -> float | None:
        """Its value in plain Python, which the kernel is judged by; ``None`` if it is missing.

        ``taken`` are the events of the window, or of the entity since it began, for which ``where`` is true and the
        value is there.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberKind(KeyedKind):
    """A feature of a number of the events before.

    Args:
        of: The number.
        fill: What stands for it in an event that has none: a number, ``"last"`` for the entity's newest one, or
            ``None``: the event does not take part.
    """

    of: Expression
    fill: Fill = field(default=None, metadata=ADDED_LATER)

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        KeyedKind.check(self, schema)
        as_number(self.of, schema, _name(self))
        check_fill(self.fill)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextKind(KeyedKind):
    """A feature of a text of the events before; its column is a category id."""

    field: str

    @property
    def is_category(self) -> bool:
        """It is."""
        return True

    @property
    def text(self) -> Expression:
        """The field."""
        return Column(self.field)

    def expressions(self) -> Iterator[Expression]:
        """The text as well."""
        yield self.text
        yield from KeyedKind.expressions(self)

    def check(self, schema: Schema) -> None:
        """The field is a text."""
        KeyedKind.check(self, schema)
        as_text(self.field, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedKind(KeyedKind):
    """A feature of a window.

    Args:
        window: How far back; ``timedelta(0)`` until `features.over` sets it.
    """

    window: Window | timedelta = timedelta(0)

    def windowed(self) -> Window:
        """The window, with its tile."""
        if self.window == timedelta(0):
            raise Misdeclared(f"{_name(self)} has no window; give window= or put it into over(windows, ...)")
        return as_window(self.window)

    def check(self, schema: Schema) -> None:
        """The window is usable as well."""
        KeyedKind.check(self, schema)
        self.windowed()

    def describe(self) -> dict[str, Any]:
        """A window as its length and its tile."""
        window = self.windowed() if self.window else None
        return KeyedKind.describe(self) | {
            "window": None if window is None else [window.length_ms, window.tile_ms]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedNumberKind(WindowedKind):
    """A feature of a number in a window.

    Args:
        of: The number.
        fill: As in `NumberKind`.
    """

    of: Expression
    fill: Fill = field(default=None, metadata=ADDED_LATER)

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, _name(self))
        check_fill(self.fill)


def check_fill(fill: object) -> None:
    """Raise `Misdeclared` unless it can stand for a missing value."""
    is_number = isinstance(fill, int | float) and not isinstance(fill, bool) and math.isfinite(fill)
    if fill is not None and fill != "last" and not is_number:
        raise Misdeclared(f"fill={fill!r} can't stand for a missing value; use a number, 'last' or None")


def _name(kind: Kind) -> str:
    return type(kind).__name__.lower()


def as_number(value: Expression | str, schema: Schema, kind: str) -> None:
    """Raise `Misdeclared` unless the value is something to calculate with."""
    expression = as_column(value)
    if expression.type_in(schema) == "text":
        raise Misdeclared(f"{kind} of the text {expression.text}; it needs numbers")


def as_text(name: str, schema: Schema) -> None:
    """Raise `Misdeclared` unless the field is a text."""
    if schema[name].type is not str:
        raise Misdeclared(
            f"category of {name!r}, which is a {schema[name].type.__name__}; use raw() for numbers"
        )


def filled(value: Expression, missing: float) -> Expression:
    """The value, with this number where it is missing; NaN leaves it so."""
    return value if math.isnan(missing) else value.fill_missing(missing)


def by_time(taken: Taken) -> list[Any]:
    """The values by (event time, log order)."""
    return [value for _, value in sorted(taken, key=lambda event: event[0])]


def as_column(value: Expression | str) -> Expression:
    """A field's name as its column."""
    return Column(value) if isinstance(value, str) else value


def all_kinds() -> "list[type[Kind]]":
    """Every kind that can be declared, discovered."""
    package = importlib.import_module("features.kinds")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"features.kinds.{module.name}")
    return sorted(
        _concrete(Kind),  # type: ignore[type-abstract]
        key=lambda kind: kind.__name__,
    )


def _concrete(kind: type[Kind]) -> Iterator[type[Kind]]:
    for child in kind.__subclasses__():
        is_named = (
            getattr(sys.modules[child.__module__], child.__name__, None) is child
        )  # slots=True leaves a twin
        if is_named and not getattr(child, "__abstractmethods__", None):
            yield child
        yield from _concrete(child)


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, float) and math.isnan(value):
        return None
    return value

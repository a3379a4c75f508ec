"""What every kind of feature can do; the kinds beside this file are found by `all_kinds`."""

import importlib
import math
import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from features.errors import Misdeclared
from features.expressions import Column, Expression
from features.plan import Plan
from features.schema import Schema
from features.windows import Window, as_window


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
            described[declared.name] = _plain(getattr(self, declared.name))
        return described


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKind(Kind):
    """A feature of the event alone: no state."""

    @abstractmethod
    def value(self) -> Expression:
        """What to compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedKind(Kind):
    """A feature of the events before, of the same entity.

    Args:
        where: Only events for which this is true take part.
        missing: What stands for a missing value; NaN by default.
    """

    where: Expression | None = None
    missing: float = math.nan

    def check(self, schema: Schema) -> None:
        """Predicates are booleans."""
        if self.where is not None and self.where.type_in(schema) != "boolean":
            raise Misdeclared(f"where={self.where.text} is neither true nor false; compare it with something")

    @abstractmethod
    def plan(self, plan: Plan) -> None:
        """Ask for the lanes or cells it needs and say how its column is made of them."""


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
            raise Misdeclared(
                f"{type(self).__name__.lower()} has no window; give window= or put it into over(windows, ...)"
            )
        return as_window(self.window)

    def check(self, schema: Schema) -> None:
        """The window is usable as well."""
        KeyedKind.check(self, schema)
        self.windowed()


def as_number(value: Expression | str, schema: Schema, kind: str) -> None:
    """Raise `Misdeclared` unless the value is something to calculate with."""
    expression = as_column(value)
    if expression.type_in(schema) == "text":
        raise Misdeclared(f"{kind} of the text {expression.text}; it needs numbers")


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
    if isinstance(value, Window):
        return [value.length_ms, value.tile_ms]
    if isinstance(value, timedelta):
        return _plain(as_window(value)) if value else None
    if isinstance(value, float) and math.isnan(value):
        return None
    return value

"""Derived: an expression over the event's fields, such as a ratio or a part of local time."""

import math
from dataclasses import dataclass, field

from features.expressions import Expression, event_time
from features.kinds.kind import ADDED_LATER, RowKind, as_column, as_number, filled
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived(RowKind):
    """The value of an expression; missing where one of its fields is, unless it says otherwise.

    Args:
        expression: What to compute.
        missing: What stands for a missing value; NaN by default.
    """

    expression: Expression
    missing: float = field(default=math.nan, metadata=ADDED_LATER)

    def check(self, schema: Schema) -> None:
        """The expression can be computed and is no text."""
        as_number(self.expression, schema, "derived")

    def value(self) -> Expression:
        """The expression."""
        return filled(self.expression, self.missing)


def derived(expression: Expression, *, missing: float = math.nan) -> Derived:
    """The value of an expression over the event's fields."""
    return Derived(expression=expression, missing=missing)


def time_part(part: str, zone: str = "UTC", of: Expression | str | None = None) -> Derived:
    """A part of local time: of the event time, or of a field in ms since the epoch.

    Args:
        part: ``hour``, ``minute``, ``minute_of_day``, ``day_of_week`` (Monday 0), ``day_of_month``,
            ``day_of_year`` or ``month``.
        zone: An IANA time zone.
        of: A field or expression in ms since the epoch; the event time by default.
    """
    time = event_time() if of is None else as_column(of)
    return Derived(expression=time.part(part, zone))

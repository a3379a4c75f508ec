"""Extremes: the highest and the lowest value of a window."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold
from features.kinds.kind import WindowedKind, as_column, as_number
from features.plan import LaneSort, Plan
from features.schema import Schema
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Max(WindowedKind):
    """The highest value of the events that have it; missing of nothing. Zero has no sign."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, "max")

    def plan(self, plan: Plan) -> None:
        """One lane."""
        lane = plan.summary(self.windowed(), self.where, self.of, LaneSort.HIGHEST)
        plan.output(fold.HIGHEST, lane, missing=self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Min(WindowedKind):
    """The lowest value of the events that have it; missing of nothing. Zero has no sign."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, "min")

    def plan(self, plan: Plan) -> None:
        """One lane."""
        lane = plan.summary(self.windowed(), self.where, self.of, LaneSort.LOWEST)
        plan.output(fold.LOWEST, lane, missing=self.missing)


def max_(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
) -> Max:
    """The highest value in a window."""
    return Max(of=as_column(of), window=window, where=where, missing=missing)


def min_(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
) -> Min:
    """The lowest value in a window."""
    return Min(of=as_column(of), window=window, where=where, missing=missing)

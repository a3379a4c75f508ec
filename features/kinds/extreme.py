"""Extremes: the highest and the lowest value of a window."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedNumberKind, as_column
from features.plan import Fill, Plan
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Max(WindowedNumberKind):
    """The highest value of the events that have it; missing of nothing. Zero has no sign."""

    def plan(self, plan: Plan) -> None:
        """One lane."""
        lane = plan.lane(rings.HIGHEST_LANE, self.windowed(), self.where, self.of, self.fill)
        plan.output(fold.HIGHEST, lane, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """The highest."""
        return max((value for _, value in taken), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Min(WindowedNumberKind):
    """The lowest value of the events that have it; missing of nothing. Zero has no sign."""

    def plan(self, plan: Plan) -> None:
        """One lane."""
        lane = plan.lane(rings.LOWEST_LANE, self.windowed(), self.where, self.of, self.fill)
        plan.output(fold.LOWEST, lane, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """The lowest."""
        return min((value for _, value in taken), default=None)


def max_(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Max:
    """The highest value in a window."""
    return Max(of=as_column(of), window=window, where=where, missing=missing, fill=fill)


def min_(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Min:
    """The lowest value in a window."""
    return Min(of=as_column(of), window=window, where=where, missing=missing, fill=fill)

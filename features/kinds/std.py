"""Std: the standard deviation of a value over a window."""

import math
import statistics
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from features.expressions import Expression
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedNumberKind, as_column
from features.plan import Fill, Plan
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Std(WindowedNumberKind):
    """The population standard deviation of a value over the events that have it: 0 of one, missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """One lane of moments."""
        lane = plan.lane(rings.MOMENTS_LANE, self.windowed(), self.where, self.of, self.fill)
        plan.output(fold.DEVIATION, lane, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """Without rounding."""
        return float(statistics.pstdev(Fraction(value) for _, value in taken)) if taken else None


def std(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Std:
    """The standard deviation of a value in a window."""
    return Std(of=as_column(of), window=window, where=where, missing=missing, fill=fill)

"""Sum: of a value over a window."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedNumberKind, as_column
from features.plan import Fill, Plan
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(WindowedNumberKind):
    """The sum in float64 of a value over the events that have it, in log order within a tile; 0 of nothing."""

    def plan(self, plan: Plan) -> None:
        """One lane."""
        lane = plan.lane(rings.SUM_LANE, self.windowed(), self.where, self.of, self.fill)
        plan.output(fold.SUM, lane, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """Their sum."""
        return math.fsum(value for _, value in taken)


def sum_(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    fill: Fill = None,
) -> Sum:
    """The sum of a value in a window."""
    return Sum(of=as_column(of), window=window, where=where, fill=fill)

"""Mean: of a value over a window."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedNumberKind, as_column
from features.plan import Fill, Plan
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(WindowedNumberKind):
    """The sum of a value divided by the number of events that have it; missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A sum and a count of the same events."""
        total, events = (
            plan.lane(sort, self.windowed(), self.where, self.of, self.fill)
            for sort in (rings.SUM_LANE, rings.COUNT_LANE)
        )
        plan.output(fold.QUOTIENT, total, events, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """Their mean."""
        return math.fsum(value for _, value in taken) / len(taken) if taken else None


def mean(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Mean:
    """The mean of a value in a window."""
    return Mean(of=as_column(of), window=window, where=where, missing=missing, fill=fill)

"""Count: how many events a window holds."""

from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedKind
from features.plan import Plan
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(WindowedKind):
    """The number of events that take part; 0 of nothing."""

    def plan(self, plan: Plan) -> None:
        """One lane."""
        plan.output(
            fold.COUNT, plan.lane(rings.COUNT_LANE, self.windowed(), self.where), missing=self.missing
        )

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """Their number."""
        return len(taken)


def count(*, window: Window | timedelta = timedelta(0), where: Expression | None = None) -> Count:
    """The number of events in a window."""
    return Count(window=window, where=where)

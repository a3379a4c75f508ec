"""Ratio: the share of a window's events for which a predicate holds."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.errors import Misdeclared
from features.expressions import Expression, Logic
from features.kernels import fold, rings
from features.kinds.kind import Taken, WindowedKind
from features.plan import Plan
from features.schema import Schema
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio(WindowedKind):
    """Events for which the predicate holds, divided by events for which it is known; missing of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The predicate is true or false."""
        WindowedKind.check(self, schema)
        if self.of.type_in(schema) != "boolean":
            raise Misdeclared(
                f"ratio of {self.of.text}, which is neither true nor false; compare it with something"
            )

    def plan(self, plan: Plan) -> None:
        """Two counts."""
        window = self.windowed()
        holds = self.of if self.where is None else Logic("&", (self.where, self.of))
        taking_part = plan.lane(rings.COUNT_LANE, window, self.where, self.of)
        plan.output(fold.SHARE, plan.lane(rings.COUNT_LANE, window, holds), taking_part, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """The share of trues."""
        return sum(value for _, value in taken) / len(taken) if taken else None


def ratio(
    of: Expression,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
) -> Ratio:
    """The share of a window's events for which ``of`` holds."""
    return Ratio(of=of, window=window, where=where, missing=missing)

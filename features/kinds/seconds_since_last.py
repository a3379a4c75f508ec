"""Seconds since last: how long ago an entity's newest event was."""

import math
from dataclasses import dataclass

from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import KeyedKind, Taken
from features.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondsSinceLast(KeyedKind):
    """``now`` − the newest event time that takes part, in seconds, never negative; missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell without a value."""
        plan.output(fold.SINCE, plan.cell(cells.NEWEST_EVENT, self.where), missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:
        """Since the newest."""
        return (now - max(time for time, _ in taken)) / 1000 if taken else None


def seconds_since_last(*, where: Expression | None = None, missing: float = math.nan) -> SecondsSinceLast:
    """Seconds since an entity's newest event."""
    return SecondsSinceLast(where=where, missing=missing)

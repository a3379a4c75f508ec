"""Std: the standard deviation of a value over a window."""

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
class Std(WindowedKind):
    """The population standard deviation of a value over the events that have it: 0 of one, missing of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, "std")

    def plan(self, plan: Plan) -> None:
        """One lane of moments."""
        lane = plan.summary(self.windowed(), self.where, self.of, LaneSort.MOMENTS)
        plan.output(fold.DEVIATION, lane, missing=self.missing)


def std(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
) -> Std:
    """The standard deviation of a value in a window."""
    return Std(of=as_column(of), window=window, where=where, missing=missing)

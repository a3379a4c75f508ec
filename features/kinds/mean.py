"""Mean: of a value over a window."""

import math
from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold
from features.kinds.kind import WindowedKind, as_column, as_number
from features.plan import Plan
from features.schema import Schema
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(WindowedKind):
    """The sum of a value divided by the number of events that have it; missing of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, "mean")

    def plan(self, plan: Plan) -> None:
        """A sum and a count of the same events."""
        window = self.windowed()
        total, events = plan.sum(window, self.where, self.of), plan.count(window, self.where, self.of)
        plan.output(fold.QUOTIENT, total, events, missing=self.missing)


def mean(
    of: Expression | str,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
) -> Mean:
    """The mean of a value in a window."""
    return Mean(of=as_column(of), window=window, where=where, missing=missing)

"""Sum: of a value over a window."""

from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import fold
from features.kinds.kind import WindowedKind, as_column, as_number
from features.plan import Plan
from features.schema import Schema
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(WindowedKind):
    """The sum in float64 of a value over the events that have it, in log order within a tile; 0 of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        WindowedKind.check(self, schema)
        as_number(self.of, schema, "sum")

    def plan(self, plan: Plan) -> None:
        """One lane."""
        plan.output(fold.SUM, plan.sum(self.windowed(), self.where, self.of), missing=self.missing)


def sum_(
    of: Expression | str, *, window: Window | timedelta = timedelta(0), where: Expression | None = None
) -> Sum:
    """The sum of a value in a window."""
    return Sum(of=as_column(of), window=window, where=where)

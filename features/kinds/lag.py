"""Lag: the value some events before the newest one of an entity."""

import math
from dataclasses import dataclass, field

from features.errors import Misdeclared
from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import NumberKind, Taken, as_column, by_time
from features.plan import Fill, Plan
from features.schema import Schema

MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag(NumberKind):
    """The value of the ``n``-th event before the newest, of those that have it, by (event time, log order).

    Missing as long as there are no more than ``n``.
    """

    n: int = field(metadata={"examples": (1, 2, 5)})

    def check(self, schema: Schema) -> None:
        """``n`` is positive and small enough to be kept for every key."""
        NumberKind.check(self, schema)
        if not 1 <= self.n <= MOST:
            raise Misdeclared(f"lag of n={self.n}; n is from 1 to {MOST}, and last() is the newest value")

    def plan(self, plan: Plan) -> None:
        """A cell of the newest n + 1."""
        cell = plan.cell(cells.NEWEST_FEW, self.where, self.of, self.fill, size=self.n + 1)
        plan.output(fold.LAG, cell, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """Counted from the end in order of time."""
        return by_time(taken)[-1 - self.n] if len(taken) > self.n else None


def lag(
    of: Expression | str,
    n: int,
    *,
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Lag:
    """The value ``n`` events before an entity's newest."""
    return Lag(of=as_column(of), n=n, where=where, missing=missing, fill=fill)

"""First: the oldest value of an entity, since it began or expired."""

import math
from dataclasses import dataclass

from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import NumberKind, Taken, TextKind, as_column, by_time
from features.plan import Fill, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class First(NumberKind):
    """The value of the oldest event that has it, by (event time, log order); missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell."""
        cell = plan.cell(cells.OLDEST_EVENT, self.where, self.of, self.fill)
        plan.output(fold.LAST, cell, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """The first of them in order of time."""
        return by_time(taken)[0] if taken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCategory(TextKind):
    """The category id of the oldest event that has the text; the id of missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell whose value is the id's bits."""
        cell = plan.cell(cells.OLDEST_EVENT, self.where, self.text)
        plan.output(fold.LAST_ID, cell, is_id=True)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """The first of them in order of time."""
        return by_time(taken)[0] if taken else None


def first(
    of: Expression | str,
    *,
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> First:
    """The oldest value of an entity."""
    return First(of=as_column(of), where=where, missing=missing, fill=fill)


def first_category(field: str, *, where: Expression | None = None) -> FirstCategory:
    """The oldest text of an entity, as a category id."""
    return FirstCategory(field=field, where=where)

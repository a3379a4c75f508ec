"""Last: the newest value of an entity."""

import math
from dataclasses import dataclass

from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import NumberKind, Taken, TextKind, as_column, by_time
from features.plan import Fill, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Last(NumberKind):
    """The value of the newest event that has it, by (event time, log order); missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell."""
        cell = plan.cell(cells.NEWEST_EVENT, self.where, self.of, self.fill)
        plan.output(fold.LAST, cell, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """The last of them in order of time."""
        return by_time(taken)[-1] if taken else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCategory(TextKind):
    """The category id of the newest event that has the text; the id of missing of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell whose value is the id's bits."""
        cell = plan.cell(cells.NEWEST_EVENT, self.where, self.text)
        plan.output(fold.LAST_ID, cell, is_id=True)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """The last of them in order of time."""
        return by_time(taken)[-1] if taken else None


def last(
    of: Expression | str,
    *,
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Last:
    """The newest value of an entity."""
    return Last(of=as_column(of), where=where, missing=missing, fill=fill)


def last_category(field: str, *, where: Expression | None = None) -> LastCategory:
    """The newest text of an entity, as a category id."""
    return LastCategory(field=field, where=where)

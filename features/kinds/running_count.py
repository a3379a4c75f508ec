"""Running count: the events of an entity since it began or expired."""

from dataclasses import dataclass

from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import KeyedKind, Taken
from features.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCount(KeyedKind):
    """The number of events folded since the entity began or expired; 0 of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell that counts."""
        plan.output(fold.EVER, plan.cell(cells.EVERY_ONE, self.where), missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - however long ago
        """Their number."""
        return len(taken)


def running_count(*, where: Expression | None = None) -> RunningCount:
    """The number of events of an entity so far."""
    return RunningCount(where=where)

"""Running count: the events of an entity since it began or expired."""

from dataclasses import dataclass

from features.expressions import Expression
from features.kernels import fold
from features.kinds.kind import KeyedKind
from features.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCount(KeyedKind):
    """The number of events folded since the entity began or expired; 0 of nothing."""

    def plan(self, plan: Plan) -> None:
        """A cell that counts."""
        plan.output(fold.EVER, plan.cell(self.where, None, keeps_value=False, sort=fold.EVERY_ONE))


def running_count(*, where: Expression | None = None) -> RunningCount:
    """The number of events of an entity so far."""
    return RunningCount(where=where)

"""Distinct: how many different values a window holds."""

from dataclasses import dataclass
from datetime import timedelta

from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import Taken, WindowedKind, as_column
from features.plan import Plan
from features.schema import Schema
from features.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(WindowedKind):
    """The number of different values of the events that have one, texts or numbers; 0 of nothing.

    Exact for up to 32,000 in the window; with more, at most 3 % off.
    """

    of: Expression

    @property
    def layout(self) -> int:
        """It has changed once."""
        return 1

    def check(self, schema: Schema) -> None:
        """The value can be computed."""
        WindowedKind.check(self, schema)
        self.of.type_in(schema)

    def plan(self, plan: Plan) -> None:
        """A cell; -0 is 0, and integers are told apart however large."""
        is_number = self.of.type_in(plan.schema) == "number"
        of = self.of + 0.0 if is_number else self.of
        cell = plan.cell(cells.DISTINCT, self.where, of, window=self.windowed(), as_word=True)
        plan.output(fold.DIFFERENT, cell, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """Their number."""
        return len({value for _, value in taken})


def distinct(
    of: Expression | str, *, window: Window | timedelta = timedelta(0), where: Expression | None = None
) -> Distinct:
    """The number of different values in a window."""
    return Distinct(of=as_column(of), window=window, where=where)

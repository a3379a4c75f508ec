"""Last: the newest value of an entity."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from features.expressions import Column, Expression
from features.kernels import fold
from features.kinds.category import category
from features.kinds.kind import KeyedKind, as_column, as_number
from features.plan import Plan
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Last(KeyedKind):
    """The value of the newest event that has it, by (event time, log order); missing of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        KeyedKind.check(self, schema)
        as_number(self.of, schema, "last")

    def plan(self, plan: Plan) -> None:
        """A cell."""
        plan.output(fold.LAST, plan.cell(self.where, self.of, keeps_value=True), missing=self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCategory(KeyedKind):
    """The category id of the newest event that has the text; the id of missing of nothing."""

    field: str

    @property
    def is_category(self) -> bool:
        """It is."""
        return True

    def expressions(self) -> Iterator[Expression]:
        """The text as well."""
        yield Column(self.field)
        yield from KeyedKind.expressions(self)

    def check(self, schema: Schema) -> None:
        """The field is a text."""
        KeyedKind.check(self, schema)
        category(self.field).check(schema)

    def plan(self, plan: Plan) -> None:
        """A cell whose value is the id's bits."""
        cell = plan.cell(self.where, Column(self.field), keeps_value=True)
        plan.output(fold.LAST_ID, cell, is_id=True)


def last(of: Expression | str, *, where: Expression | None = None, missing: float = math.nan) -> Last:
    """The newest value of an entity."""
    return Last(of=as_column(of), where=where, missing=missing)


def last_category(field: str, *, where: Expression | None = None) -> LastCategory:
    """The newest text of an entity, as a category id."""
    return LastCategory(field=field, where=where)

"""First: the oldest value of an entity, since it began or expired."""

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
class First(KeyedKind):
    """The value of the oldest event that has it, by (event time, log order); missing of nothing."""

    of: Expression

    def check(self, schema: Schema) -> None:
        """The value is a number."""
        KeyedKind.check(self, schema)
        as_number(self.of, schema, "first")

    def plan(self, plan: Plan) -> None:
        """A cell."""
        plan.output(
            fold.LAST,
            plan.cell(self.where, self.of, keeps_value=True, sort=fold.OLDEST_EVENT),
            missing=self.missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCategory(KeyedKind):
    """The category id of the oldest event that has the text; the id of missing of nothing."""

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
        cell = plan.cell(self.where, Column(self.field), keeps_value=True, sort=fold.OLDEST_EVENT)
        plan.output(fold.LAST_ID, cell, is_id=True)


def first(of: Expression | str, *, where: Expression | None = None, missing: float = math.nan) -> First:
    """The oldest value of an entity."""
    return First(of=as_column(of), where=where, missing=missing)


def first_category(field: str, *, where: Expression | None = None) -> FirstCategory:
    """The oldest text of an entity, as a category id."""
    return FirstCategory(field=field, where=where)

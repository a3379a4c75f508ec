"""Category: a text as an id that no training changed."""

from dataclasses import dataclass

from features.expressions import Column, Expression
from features.kinds.kind import RowKind, as_text
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Category(RowKind):
    """XXH64 of the text as ``int64``; a missing text has an id of its own.

    A model's manifest maps ids to its codes, so that retraining changes no state.
    """

    field: str

    @property
    def is_category(self) -> bool:
        """It is."""
        return True

    def check(self, schema: Schema) -> None:
        """The field is a text."""
        as_text(self.field, schema)

    def value(self) -> Expression:
        """The field."""
        return Column(self.field)


def category(field: str) -> Category:
    """The text of a field as a category id."""
    return Category(field=field)

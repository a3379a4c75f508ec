"""Category: a text as an id that no training changed."""

from dataclasses import dataclass

from features.errors import Misdeclared
from features.expressions import Column, Expression
from features.kinds.kind import RowKind
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
        if schema[self.field].type is not str:
            raise Misdeclared(
                f"category of {self.field!r}, which is a {schema[self.field].type.__name__}; use raw() for numbers"
            )

    def value(self) -> Expression:
        """The field."""
        return Column(self.field)


def category(field: str) -> Category:
    """The text of a field as a category id."""
    return Category(field=field)

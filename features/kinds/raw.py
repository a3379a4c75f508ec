"""Raw: a field's value as it is."""

from dataclasses import dataclass

from features.expressions import Column, Expression
from features.kinds.kind import RowKind, as_number
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(RowKind):
    """The value of a number or boolean field; missing where the event has none."""

    field: str

    def check(self, schema: Schema) -> None:
        """The field is there and no text."""
        as_number(self.field, schema, "raw")

    def value(self) -> Expression:
        """The field."""
        return Column(self.field)


def raw(field: str) -> Raw:
    """The value of a number or boolean field."""
    return Raw(field=field)

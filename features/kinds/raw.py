"""Raw: a field's value as it is."""

import dataclasses
import math
from dataclasses import dataclass

from features.expressions import Column, Expression
from features.kinds.kind import ADDED_LATER, RowKind, as_number, filled
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(RowKind):
    """The value of a number or boolean field; missing where the event has none.

    Args:
        field: Its name.
        missing: What stands for a missing value; NaN by default.
    """

    field: str
    missing: float = dataclasses.field(default=math.nan, metadata=ADDED_LATER)

    def check(self, schema: Schema) -> None:
        """The field is there and no text."""
        as_number(self.field, schema, "raw")

    def value(self) -> Expression:
        """The field."""
        return filled(Column(self.field), self.missing)


def raw(field: str, *, missing: float = math.nan) -> Raw:
    """The value of a number or boolean field."""
    return Raw(field=field, missing=missing)

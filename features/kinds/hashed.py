"""Hashed: a text as one of so many codes, without a vocabulary."""

import dataclasses
import math
from dataclasses import dataclass

from features.expressions import Column, Expression
from features.kinds.kind import RowKind, filled
from features.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed(RowKind):
    """XXH64 of the text scaled to a code from 0 to ``buckets`` − 1, a float32; unlike texts may share one.

    Needs no training and knows no unknown text (Weinberger et al., *Feature Hashing for Large Scale Multitask
    Learning*, ICML 2009).
    """

    field: str
    buckets: int = dataclasses.field(metadata={"examples": (2, 1000, 2**24)})
    missing: float = math.nan

    def check(self, schema: Schema) -> None:
        """The field is a text."""
        self.value().type_in(schema)

    def value(self) -> Expression:
        """The code."""
        return filled(Column(self.field).hashed(self.buckets), self.missing)


def hashed(field: str, buckets: int, *, missing: float = math.nan) -> Hashed:
    """The text of a field as one of ``buckets`` (2 to 2**24) codes."""
    return Hashed(field=field, buckets=buckets, missing=missing)

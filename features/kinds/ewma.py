"""Ewma: a mean in which an event counts half as much every half-life."""

import math
from dataclasses import dataclass, field
from datetime import timedelta

from features.errors import Misdeclared
from features.expressions import Expression
from features.kernels import cells, fold
from features.kinds.kind import NumberKind, Taken, as_column
from features.plan import Fill, Plan
from features.schema import Schema

_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = timedelta(days=3660)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ewma(NumberKind):
    """Σ v · 2^(−age / half-life) ÷ Σ 2^(−age / half-life) of the events that have a finite value; missing of nothing.

    An event 1,022 half-lives older than the newest counts for nothing. The same log gives the same bits on every
    processor; see `features.kernels.decay`.
    """

    half_life: timedelta = field(
        metadata={"examples": (timedelta(milliseconds=1), timedelta(seconds=7), timedelta(days=1))}
    )

    def check(self, schema: Schema) -> None:
        """The half-life is a time."""
        NumberKind.check(self, schema)
        if not isinstance(self.half_life, timedelta) or not _MILLISECOND <= self.half_life <= _LONGEST:
            raise Misdeclared(
                f"ewma with half_life={self.half_life!r}; give a timedelta from 1 millisecond to ten years"
            )

    def plan(self, plan: Plan) -> None:
        """A cell."""
        size = self.half_life // _MILLISECOND
        cell = plan.cell(cells.DECAYED, self.where, self.of, self.fill, size=size)
        plan.output(fold.WEIGHTED_MEAN, cell, missing=self.missing)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - what is shared by all weights cancels
        """Ages as of the newest."""
        finite = [(time, value) for time, value in taken if math.isfinite(value)]
        newest = max((time for time, _ in finite), default=0)
        weights = [2.0 ** -min((newest - time) * _MILLISECOND / self.half_life, 1074) for time, _ in finite]
        weighted = math.fsum(weight * value for weight, (_, value) in zip(weights, finite, strict=True))
        return weighted / math.fsum(weights) if finite else None


def ewma(
    of: Expression | str,
    half_life: timedelta,
    *,
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Ewma:
    """The exponentially weighted mean of an entity's values."""
    return Ewma(of=as_column(of), half_life=half_life, where=where, missing=missing, fill=fill)

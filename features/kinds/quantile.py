"""Quantile: of the values in a window."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction

from features.errors import Misdeclared
from features.expressions import Expression
from features.kernels import cells, fold
from features.kernels.quantile import MAX_TILES
from features.kinds.kind import Taken, WindowedNumberKind, as_column
from features.plan import Fill, Plan
from features.schema import Schema
from features.windows import Window, short_name

_BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(WindowedNumberKind):
    """The smallest value that at least a share ``q`` of the values does not exceed; missing of nothing.

    Exact for up to 4,000 values in the window; with more, its rank is at most 1 % of their number off. ``q`` is
    taken to nine decimals.
    """

    q: float = field(metadata={"examples": (0.0, 0.1, 0.5, 0.95, 1.0)})

    @property
    def layout(self) -> int:
        """It has changed once."""
        return 1

    def check(self, schema: Schema) -> None:
        """``q`` is a share, and the window has few enough tiles."""
        WindowedNumberKind.check(self, schema)
        if not 0 <= self.q <= 1:
            raise Misdeclared(f"quantile of q={self.q}; q is a share from 0 to 1")
        window = self.windowed()
        if window.length // window.tile > MAX_TILES:
            raise Misdeclared(
                f"quantile over {window.length // window.tile} tiles of {short_name(window.tile)}; "
                f"at most {MAX_TILES}: give Window(length, tile) with a longer tile"
            )

    def plan(self, plan: Plan) -> None:
        """A cell, which quantiles of one value and window share."""
        cell = plan.cell(cells.QUANTILE, self.where, self.of, self.fill, window=self.windowed())
        plan.output(fold.RANKED, cell, self._billionths, missing=self.missing)

    @property
    def _billionths(self) -> int:
        return round(self.q * _BILLION)

    def meaning(self, taken: Taken, now: int) -> float | None:  # noqa: ARG002 - the window is given
        """By rank."""
        ordered = sorted(value for _, value in taken)
        rank = math.ceil(Fraction(self._billionths, _BILLION) * len(ordered))
        return ordered[max(rank, 1) - 1] if ordered else None


def quantile(  # noqa: PLR0913 - each is a declared property
    of: Expression | str,
    q: float,
    *,
    window: Window | timedelta = timedelta(0),
    where: Expression | None = None,
    missing: float = math.nan,
    fill: Fill = None,
) -> Quantile:
    """The ``q``-quantile of a value in a window, such as 0.5 for the median."""
    return Quantile(of=as_column(of), q=q, window=window, where=where, missing=missing, fill=fill)

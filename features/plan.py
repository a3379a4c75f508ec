"""A feature set compiled: the descriptor tables of the generic kernel, and what each slice computes first.

Kinds describe themselves to a `Plan`; its `tables` lay out a slot, in words::

    newest | hash | key | group, group, ... | cell, cell, ...

Equal counts and sums are stored once however many features use them; the masks and values that a slice
is folded with are shared by all feature sets of a pipeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from features.expressions import Expression
from features.kernels import fold
from features.kernels.rings import GROUP_WORDS
from features.kernels.slots import SLOT_WORDS
from features.schema import Schema
from features.windows import Window

Table = NDArray[np.int64]

EVERY_EVENT = "|"
"""The text of the mask that is never false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Which events take part: those whose predicate is true and whose value is there.

    Args:
        where: The predicate, or ``None`` for every event.
        present: The value that must not be missing, or ``None``.
    """

    where: Expression | None
    present: Expression | None

    @property
    def text(self) -> str:
        """Equal texts take equal events."""
        return f"{'' if self.where is None else self.where.text}|{'' if self.present is None else self.present.text}"


class LaneSort(IntEnum):
    """What a lane keeps; highest and lowest are peaks."""

    COUNT = 0
    SUM = 1
    HIGHEST = 2
    LOWEST = 3
    MOMENTS = 4


_PLACES = {LaneSort.COUNT: 0, LaneSort.SUM: 1, LaneSort.HIGHEST: 2, LaneSort.LOWEST: 2, LaneSort.MOMENTS: 3}
"""In which order a group has them."""
_WORDS = {LaneSort.MOMENTS: 3}
"""Of those with more than one: number, mean and squared differences."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A count, a sum, a peak or the moments of one window; ``value`` is ``None`` for a count."""

    window: Window
    mask: str
    value: str | None
    sort: LaneSort


@dataclass(frozen=True, slots=True)
class Cell:
    """The time, and with ``value`` the value, of one event that takes part, or their number; ``sort`` as the kernel's."""

    mask: str
    value: str | None
    sort: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How one column is made of lanes or a cell."""

    operation: int
    left: Lane | Cell
    right: Lane | None
    missing: float
    is_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What `features.kernels.fold.fold_slice` takes; rows as named there."""

    groups: Table
    lanes: Table
    cells: Table
    outputs: Table
    fills: NDArray[np.float64]
    rules: Table
    words_per_event: int


@dataclass(slots=True)
class FoldInputs:
    """Masks and values that every slice of a pipeline is folded with, by their texts, in order."""

    masks: dict[str, Mask] = field(default_factory=dict)
    values: dict[str, Expression] = field(default_factory=dict)

    def mask_row(self, text: str) -> int:
        """The mask's row, -1 for every event."""
        return -1 if text == EVERY_EVENT else list(self.masks).index(text)

    def value_row(self, text: str | None) -> int:
        """The value's row, -1 for none."""
        return -1 if text is None else list(self.values).index(text)


@dataclass(slots=True)
class Plan:
    """What the kinds of one feature set ask for."""

    schema: Schema
    inputs: FoldInputs
    outputs: list[Output] = field(default_factory=list)

    def count(self, window: Window, where: Expression | None, present: Expression | None = None) -> Lane:
        """A lane that counts the events that take part."""
        return Lane(window, self._mask(where, present), None, LaneSort.COUNT)

    def sum(self, window: Window, where: Expression | None, value: Expression) -> Lane:
        """A lane that sums ``value`` over the events that take part."""
        return Lane(window, self._mask(where, value), self._value(value), LaneSort.SUM)

    def summary(self, window: Window, where: Expression | None, value: Expression, sort: LaneSort) -> Lane:
        """A lane that keeps a peak or the moments of ``value`` over the events that take part."""
        return Lane(window, self._mask(where, value), self._value(value), sort)

    def cell(
        self,
        where: Expression | None,
        value: Expression | None,
        *,
        keeps_value: bool,
        sort: int = fold.NEWEST_EVENT,
    ) -> Cell:
        """A cell for the newest event that takes part, the oldest, or every one."""
        kept = self._value(value) if keeps_value and value is not None else None
        return Cell(self._mask(where, value), kept, sort)

    def output(
        self,
        operation: int,
        left: Lane | Cell,
        right: Lane | None = None,
        *,
        missing: float = np.nan,
        is_id: bool = False,
    ) -> None:
        """The next column."""
        self.outputs.append(Output(operation=operation, left=left, right=right, missing=missing, is_id=is_id))

    def _mask(self, where: Expression | None, present: Expression | None) -> str:
        if present is not None and self._is_always_there(present):
            present = None
        mask = Mask(where=where, present=present)
        if mask.text != EVERY_EVENT:
            self.inputs.masks.setdefault(mask.text, mask)
        return mask.text

    def _is_always_there(self, value: Expression) -> bool:
        return value.text in self.schema and not self.schema[value.text].optional

    def _value(self, value: Expression) -> str:
        self.inputs.values.setdefault(value.text, value)
        return value.text

    def tables(
        self, columns: Sequence[int], *, ttl: timedelta | None, max_late: timedelta, include_current: bool
    ) -> Tables:
        """Lay out the slot and write the tables; ``columns`` is where each output goes in its block."""
        layout = _Layout(self)
        rules = np.array(
            [
                -1 if ttl is None else ttl // timedelta(milliseconds=1),
                max_late // timedelta(milliseconds=1),
                8 * layout.words,
                include_current,
            ],
            np.int64,
        )
        return Tables(
            groups=_table(layout.groups, 8),
            lanes=_table(layout.lane_rows(), 3),
            cells=_table(layout.cell_rows(), 4),
            outputs=_table(
                [
                    layout.output_row(output, column)
                    for output, column in zip(self.outputs, columns, strict=True)
                ],
                4,
            ),
            fills=np.array([output.missing for output in self.outputs], np.float64),
            rules=rules,
            words_per_event=layout.words_per_event,
        )


class _Layout:
    """Where every lane and cell stands in a slot."""

    def __init__(self, plan: Plan) -> None:
        self.inputs = plan.inputs
        used = [part for output in plan.outputs for part in (output.left, output.right)]
        lanes = list(dict.fromkeys(part for part in used if isinstance(part, Lane)))
        windows = list(dict.fromkeys(lane.window for lane in lanes))
        self.lanes = [
            lane
            for window in windows
            for lane in sorted(lanes, key=lambda lane: _PLACES[lane.sort])
            if lane.window == window
            for _ in range(_WORDS.get(lane.sort, 1))
        ]
        self.cells = list(dict.fromkeys(part for part in used if isinstance(part, Cell)))
        self.words, self.words_per_event = SLOT_WORDS, 0
        self.groups: list[list[int]] = []
        for window in windows:
            self._add_group(window)
        self.cell_at = [8 * (self.words + fold.CELL_WORDS * i) for i in range(len(self.cells))]
        self.words += fold.CELL_WORDS * len(self.cells)

    def _add_group(self, window: Window) -> None:
        mine = [lane for lane in self.lanes if lane.window == window]
        counts = sum(lane.sort is LaneSort.COUNT for lane in mine)
        sums = sum(lane.sort is LaneSort.SUM for lane in mine)
        peaks = sum(lane.sort in {LaneSort.HIGHEST, LaneSort.LOWEST} for lane in mine)
        row = [
            window.tile_ms,
            window.length_ms,
            8 * self.words,
            counts,
            sums,
            peaks,
            len(mine),
            self.lanes.index(mine[0]),
        ]
        self.groups.append(row)
        self.words += GROUP_WORDS + 2 * len(mine)
        self.words_per_event += 3 * (len(mine) + 1) * (window.length // window.tile + 2)

    def lane_rows(self) -> list[list[int]]:
        return [
            [
                self.inputs.mask_row(lane.mask),
                self.inputs.value_row(lane.value),
                lane.sort is LaneSort.LOWEST,
            ]
            for lane in self.lanes
        ]

    def cell_rows(self) -> list[list[int]]:
        return [
            [self.inputs.mask_row(cell.mask), self.inputs.value_row(cell.value), at, cell.sort]
            for cell, at in zip(self.cells, self.cell_at, strict=True)
        ]

    def output_row(self, output: Output, column: int) -> list[int]:
        if isinstance(output.left, Cell):
            return [output.operation, self.cells.index(output.left), -1, column]
        right = -1 if output.right is None else self.lanes.index(output.right)
        return [output.operation, self.lanes.index(output.left), right, column]


def _table(rows: Sequence[Sequence[int]], columns: int) -> Table:
    return np.array(rows, np.int64).reshape(len(rows), columns)

"""A feature set compiled: the descriptor tables of the generic kernel, and what each slice computes first.

Kinds describe themselves to a `Plan`; its `tables` lay out a slot, in words::

    newest | hash | key | group, group, ... | cell, cell, ...

Equal counts and sums are stored once however many features use them; the masks and values that a slice
is folded with are shared by all feature sets of a pipeline.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from features.expressions import Expression
from features.kernels import cells, fold, rings
from features.kernels.rings import GROUP_WORDS
from features.kernels.slots import SLOT_WORDS
from features.schema import Schema
from features.windows import Window

Table = NDArray[np.int64]

Fill = float | Literal["last"] | None
"""What stands for an event's missing value: a number, the entity's newest value, or nothing: it does not take part."""

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


@dataclass(frozen=True, slots=True)
class Lane:
    """A count, a sum, a peak or the moments of one window; ``value`` is ``None`` for a count, ``sort`` as in the rings."""

    window: Window
    mask: str
    value: str | None
    sort: int

    @property
    def words(self) -> int:
        """Of those of moments: number, mean and squared differences."""
        return 3 if self.sort == rings.MOMENTS_LANE else 1


@dataclass(frozen=True, slots=True)
class Cell:
    """What is kept of the events that take part, outside tiles.

    Args:
        mask: Which take part.
        value: What is kept of them; ``None`` for nothing but their times or number.
        sort: As in `features.kernels.cells`.
        size: How many values it keeps, or its half-life in ms.
        window: Of sorts that have one.
    """

    mask: str
    value: str | None
    sort: int
    size: int = 0
    window: Window | None = None

    @property
    def words(self) -> int:
        """Of its slot."""
        return cells.cell_words(self.sort, self.size)


_PLACES = {
    rings.COUNT_LANE: 0,
    rings.SUM_LANE: 1,
    rings.HIGHEST_LANE: 2,
    rings.LOWEST_LANE: 2,
    rings.MOMENTS_LANE: 3,
}
"""In which order a group has its lanes."""


@dataclass(frozen=True, slots=True)
class FoldValue:
    """What is folded: as ``float64``, or with ``as_word`` the bits of an integer."""

    of: Expression
    as_word: bool = False


@dataclass(frozen=True, slots=True)
class Filling:
    """Where the value of a cell stands in: texts of the mask, of that of all who may take part, and of the value."""

    mask: str
    where: str
    value: str
    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How one column is made of lanes, or of a cell and a parameter."""

    operation: int
    left: Lane | Cell
    right: Lane | int | None
    missing: float
    is_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What `features.kernels.fold.fold_slice` takes; rows as named there."""

    groups: Table
    lanes: Table
    cells: Table
    outputs: Table
    fills: Table
    missing: NDArray[np.float64]
    rules: Table
    words_per_event: int
    block_cells: int


@dataclass(slots=True)
class FoldInputs:
    """Masks and values that every slice of a pipeline is folded with, by their texts, in order."""

    masks: dict[str, Mask] = field(default_factory=dict)
    values: dict[str, FoldValue] = field(default_factory=dict)

    def mask_row(self, text: str) -> int:
        """The mask's row, -1 for every event."""
        return -1 if text == EVERY_EVENT else list(self.masks).index(text)

    def value_row(self, text: str | None) -> int:
        """The value's row, -1 for none."""
        return -1 if text is None else list(self.values).index(text)


@dataclass(slots=True)
class Plan:
    """What the kinds of one feature set, the pipeline's ``number``-th, ask for."""

    schema: Schema
    inputs: FoldInputs
    number: int
    outputs: list[Output] = field(default_factory=list)
    fills: dict[str, Filling] = field(default_factory=dict)

    def lane(
        self,
        sort: int,
        window: Window,
        where: Expression | None,
        of: Expression | None = None,
        fill: Fill = None,
    ) -> Lane:
        """A lane of `features.kernels.rings` over the events that take part: those that have the value, if one is given."""
        mask, value = self._taken(where, of, fill)
        return Lane(window, mask, None if sort == rings.COUNT_LANE else value, sort)

    def cell(  # noqa: PLR0913 - what a cell is made of
        self,
        sort: int,
        where: Expression | None,
        of: Expression | None = None,
        fill: Fill = None,
        *,
        size: int = 0,
        window: Window | None = None,
        as_word: bool = False,
    ) -> Cell:
        """A cell of `features.kernels.cells` for the events that take part; ``as_word`` keeps integers exactly."""
        mask, value = self._taken(where, of, fill, as_word=as_word)
        return Cell(mask, value, sort, size, window)

    def output(
        self,
        operation: int,
        left: Lane | Cell,
        right: Lane | int | None = None,
        *,
        missing: float = np.nan,
        is_id: bool = False,
    ) -> None:
        """The next column."""
        self.outputs.append(Output(operation=operation, left=left, right=right, missing=missing, is_id=is_id))

    def _taken(
        self, where: Expression | None, of: Expression | None, fill: Fill, *, as_word: bool = False
    ) -> tuple[str, str | None]:
        """Texts of the mask and of the value, which may stand in for a missing one."""
        if fill == "last" and of is not None:
            return self._filled(where, of)
        if of is not None and fill is not None:
            of = of.fill_missing(fill)
        present = of if of is not None and of.may_be_missing_in(self.schema) else None
        mask = self._mask(Mask(where=where, present=present))
        return mask, None if of is None else self._value(of, as_word=as_word)

    def _filled(self, where: Expression | None, of: Expression) -> tuple[str, str]:
        """The same where the entity's newest value stands in: rows of their own, which the fold writes to."""
        mask, value = Mask(where=where, present=of), f"{of.text}.last({self.number})"
        text = f"{mask.text}.last({self.number})"
        self.inputs.masks.setdefault(text, mask)
        self.inputs.values.setdefault(value, FoldValue(of))
        everyone = self._mask(Mask(where=where, present=None))
        self.fills.setdefault(text, Filling(text, everyone, value, self.cell(cells.NEWEST_EVENT, None, of)))
        return text, value

    def _mask(self, mask: Mask) -> str:
        if mask.text != EVERY_EVENT:
            self.inputs.masks.setdefault(mask.text, mask)
        return mask.text

    def _value(self, value: Expression, *, as_word: bool) -> str:
        text = f"word({value.text})" if as_word else value.text
        self.inputs.values.setdefault(text, FoldValue(value, as_word=as_word))
        return text

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
            groups=_table(layout.groups, fold.GROUP_COLUMNS),
            lanes=_table(layout.lane_rows(), fold.LANE_COLUMNS),
            cells=_table(layout.cell_rows(), fold.CELL_COLUMNS),
            outputs=_table(
                [
                    layout.output_row(output, column)
                    for output, column in zip(self.outputs, columns, strict=True)
                ],
                fold.OUTPUT_COLUMNS,
            ),
            fills=_table(layout.fill_rows(self.fills.values()), fold.FILL_COLUMNS),
            missing=np.array([output.missing for output in self.outputs], np.float64),
            rules=rules,
            words_per_event=layout.words_per_event,
            block_cells=sum(cell.sort in cells.BLOCK_SORTS for cell in layout.cells),
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
            for _ in range(lane.words)
        ]
        kept = [fill.cell for fill in plan.fills.values()]
        self.cells = list(dict.fromkeys([part for part in used if isinstance(part, Cell)] + kept))
        self.words, self.words_per_event = SLOT_WORDS, 0
        self.groups: list[list[int]] = []
        for window in windows:
            self._add_group(window)
        self.cell_at: list[int] = []
        for cell in self.cells:
            self.cell_at.append(8 * self.words)
            self.words += cell.words

    def _add_group(self, window: Window) -> None:
        mine = [lane for lane in self.lanes if lane.window == window]
        places = [_PLACES[lane.sort] for lane in mine]
        row = [
            window.tile_ms,
            window.length_ms,
            8 * self.words,
            *(places.count(place) for place in range(3)),
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
                lane.sort if i == self.lanes.index(lane) else rings.NO_LANE,
            ]
            for i, lane in enumerate(self.lanes)
        ]

    def cell_rows(self) -> list[list[int]]:
        return [
            [
                self.inputs.mask_row(cell.mask),
                self.inputs.value_row(cell.value),
                at,
                cell.sort,
                cell.size,
                *(
                    (0, 0)
                    if cell.window is None
                    else (cell.window.tile_ms, cell.window.length // cell.window.tile)
                ),
            ]
            for cell, at in zip(self.cells, self.cell_at, strict=True)
        ]

    def fill_rows(self, fills: Iterable[Filling]) -> list[list[int]]:
        return [
            [
                self.inputs.mask_row(fill.mask),
                self.inputs.mask_row(fill.where),
                self.inputs.value_row(fill.value),
                self.cells.index(fill.cell),
            ]
            for fill in fills
        ]

    def output_row(self, output: Output, column: int) -> list[int]:
        left, right = output.left, output.right
        place = self.lanes.index(left) if isinstance(left, Lane) else self.cells.index(left)
        if isinstance(right, Lane):
            right = self.lanes.index(right)
        return [output.operation, place, 0 if right is None else right, column]


def _table(rows: Sequence[Sequence[int]], columns: int) -> Table:
    return np.array(rows, np.int64).reshape(len(rows), columns)

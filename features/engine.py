"""The engine: feature sets compiled against a schema, and their state on one partition.

The worker, replay, tests and notebooks compute rows here and nowhere else::

    engine = Engine(schema, sets, score_when)      # declared things, checked and compiled once
    state = engine.new_partition()                 # the fold of one partition's log
    rows = state.process(columns)                  # a slice: read and fold in log order
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns, Int64s
from features.errors import Misdeclared
from features.evaluate import Evaluator
from features.expressions import Expression
from features.featureset import FeatureSet
from features.fingerprints import column_fingerprint, state_fingerprint
from features.keys import entity_keys
from features.kinds.kind import KeyedKind, Kind, RowKind
from features.plan import Mask, Plan, Tables
from features.rows import Rows
from features.schema import Schema
from features.state import Inputs, KeyedState

RESERVED_COLUMNS = {"partition", "offset", "event_time", "key", "label_key", "label", "features_digest"}
"""Names of the columns of a training table that are no features."""

NO_TIME = np.iinfo(np.int64).min
"""The watermark of a partition without a well-formed record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowColumn:
    """A feature of the event alone, and its place."""

    value: Expression
    column: int
    is_category: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompiledSet:
    """A keyed feature set for the kernel."""

    key: tuple[str, ...]
    tables: Tables
    masks: tuple[Mask, ...]
    values: tuple[Expression, ...]


class Engine:
    """Feature sets compiled against a schema; it holds no state and may be shared.

    Args:
        schema: The source's schema.
        sets: The feature sets; their columns follow one another.
        score_when: Which events get a row; all by default.

    Raises:
        Misdeclared: If a feature can't be computed, naming it and the fix.
    """

    def __init__(
        self, schema: Schema, sets: Sequence[FeatureSet], score_when: Expression | None = None
    ) -> None:
        self.schema, self.sets, self.score_when = schema, tuple(sets), score_when
        self._check()
        self.float_columns, self.category_columns = _columns(self.sets)
        places = {
            name: i for names in (self.float_columns, self.category_columns) for i, name in enumerate(names)
        }
        self.row_columns = tuple(_row_columns(self.sets, places))
        self.compiled = tuple(_compile(schema, declared, places) for declared in self.sets if declared.key)

    @cached_property
    def column_fingerprint(self) -> str:
        """Binds models: names, dtypes and meaning of the columns."""
        return column_fingerprint(self.schema, self.sets)

    @cached_property
    def state_fingerprint(self) -> str:
        """Names state: everything that the fold depends on."""
        return state_fingerprint(self.schema, self.sets)

    def new_partition(self) -> "PartitionState":
        """The state of a partition before its first record."""
        return PartitionState(self)

    def _check(self) -> None:
        if not self.sets:
            raise Misdeclared("A pipeline needs at least one FeatureSet")
        columns = [column for declared in self.sets for column in declared.columns]
        if twice := sorted({column for column in columns if columns.count(column) > 1}):
            raise Misdeclared(
                f"Two features have the name {twice[0]!r}; give one FeatureSet a name=, or rename the feature"
            )
        if taken := sorted(RESERVED_COLUMNS & set(columns)):
            raise Misdeclared(
                f"A feature can't be called {taken[0]!r}, a column that every row has; rename it"
            )
        for declared in self.sets:
            declared.check(self.schema)
        if self.score_when is not None and self.score_when.type_in(self.schema) != "boolean":
            raise Misdeclared(
                f"score_when={self.score_when.text} is neither true nor false; compare it with something"
            )


class PartitionState:
    """The fold of one partition's log: a watermark and a keyed state for each keyed feature set."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.watermark: int = NO_TIME
        self._keyed = tuple(KeyedState(compiled.tables) for compiled in engine.compiled)

    def process(self, columns: Columns) -> Rows:
        """Read and fold a slice of the partition's well-formed events, in log order."""
        evaluate = Evaluator(columns)
        scored = self._scored(evaluate)
        events = np.flatnonzero(scored)
        block = np.empty((len(events), len(self.engine.float_columns)), np.float32)
        ids = np.empty((len(events), len(self.engine.category_columns)), np.int64)
        if not len(columns):
            return Rows(block=block, ids=ids, events=events)
        for row_column in self.engine.row_columns:
            vector = evaluate(row_column.value)
            if row_column.is_category:
                ids[:, row_column.column] = vector.data[events]
            else:
                with np.errstate(over="ignore"):
                    block[:, row_column.column] = vector.floats()[events]
        rows = np.cumsum(scored) - 1
        rows[~scored] = -1
        watermarks = np.maximum.accumulate(np.maximum(columns.times, self.watermark))
        for compiled, state in zip(self.engine.compiled, self._keyed, strict=True):
            state.fold(
                entity_keys(columns, compiled.key),
                Inputs(
                    times=columns.times,
                    watermarks=watermarks,
                    rows=rows,
                    masks=_masks(compiled.masks, evaluate),
                    values=_values(compiled.values, evaluate),
                ),
                block,
                ids,
            )
        self.watermark = int(watermarks[-1])
        return Rows(block=block, ids=ids, events=events)

    def _scored(self, evaluate: Evaluator) -> NDArray[np.bool_]:
        if self.engine.score_when is None:
            return np.ones(len(evaluate.columns), np.bool_)
        return evaluate(self.engine.score_when).is_true()

    @property
    def keys(self) -> int:
        """Entities held, over all feature sets."""
        return sum(state.keys for state in self._keyed)

    @property
    def size(self) -> int:
        """Bytes of state in use."""
        return sum(state.size for state in self._keyed)

    def snapshot(self) -> dict[str, Int64s]:
        """A copy of everything, by name: arrays of ``int64``."""
        arrays = {"watermark": np.array([self.watermark], np.int64)}
        for number, state in enumerate(self._keyed):
            arrays.update({f"{number}.{name}": array for name, array in state.snapshot().items()})
        return arrays

    def restore(self, snapshot: Mapping[str, Int64s]) -> None:
        """Become what the snapshot was taken of; the engine's state fingerprint has to be the same."""
        self.watermark = int(snapshot["watermark"][0])
        for number, state in enumerate(self._keyed):
            prefix = f"{number}."
            state.restore(
                {name.removeprefix(prefix): a for name, a in snapshot.items() if name.startswith(prefix)}
            )


def _columns(sets: Sequence[FeatureSet]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the float columns and of the category columns, in order."""
    kinds = _kinds(sets)
    return (
        tuple(name for name, kind in kinds if not kind.is_category),
        tuple(name for name, kind in kinds if kind.is_category),
    )


def _kinds(sets: Sequence[FeatureSet]) -> list[tuple[str, Kind]]:
    return [
        pair for declared in sets for pair in zip(declared.columns, declared.features.values(), strict=True)
    ]


def _row_columns(sets: Sequence[FeatureSet], places: Mapping[str, int]) -> list[_RowColumn]:
    return [
        _RowColumn(value=kind.value(), column=places[name], is_category=kind.is_category)
        for name, kind in _kinds(sets)
        if isinstance(kind, RowKind)
    ]


def _compile(schema: Schema, declared: FeatureSet, places: Mapping[str, int]) -> _CompiledSet:
    plan = Plan(schema)
    for kind in declared.features.values():
        assert isinstance(kind, KeyedKind)
        kind.plan(plan)
    tables = plan.tables(
        [places[name] for name in declared.columns],
        ttl=declared.expires_after,
        max_late=schema.time.max_late,
        include_current=declared.include_current,
    )
    masks = tuple(mask for text, mask in plan.masks.items() if text != "|")
    return _CompiledSet(
        key=tuple(declared.key), tables=tables, masks=masks, values=tuple(plan.values.values())
    )


def _masks(masks: Sequence[Mask], evaluate: Evaluator) -> NDArray[np.uint8]:
    """``(masks, n) uint8``: 1 where an event takes part."""
    out = np.empty((len(masks), len(evaluate.columns)), np.bool_)
    for row, mask in enumerate(masks):
        if mask.where is not None and mask.present is not None:
            np.logical_and(evaluate(mask.where).is_true(), evaluate(mask.present).valid, out=out[row])
        elif mask.where is not None:
            out[row] = evaluate(mask.where).is_true()
        elif mask.present is not None:
            out[row] = evaluate(mask.present).valid
    return out.view(np.uint8)


def _values(values: Sequence[Expression], evaluate: Evaluator) -> NDArray[np.float64]:
    """``(values, n) float64``; a category's row holds the bits of its ids."""
    out = np.empty((len(values), len(evaluate.columns)), np.float64)
    for row, value in enumerate(values):
        if value.type_in(evaluate.columns.schema) == "text":
            out[row] = evaluate(value).data.view(np.float64)
        else:
            out[row] = evaluate(value).data
    return out

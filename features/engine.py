"""The engine: feature sets compiled against a schema, and their state on one partition.

The worker, replay, tests and notebooks compute rows here and nowhere else::

    engine = Engine(schema, sets, score_when)      # declared things, checked and compiled once
    state = engine.new_partition()                 # the fold of one partition's log
    rows = state.process(columns)                  # a slice: read and fold in log order
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from features.columns import Bytes, Columns, Int64s
from features.errors import Misdeclared, declared_as
from features.expressions import Expression
from features.featureset import FeatureSet
from features.fingerprints import column_fingerprint, state_fingerprint
from features.kernels.fold import CELL_MASK, CELL_VALUE, LANE_SORT, SLOT_BYTES
from features.kernels.memory import address_of
from features.kernels.process import NO_ROOM, SET_COLUMNS, STATE_COLUMNS, process_slice
from features.kinds.kind import KeyedKind, Kind, RowKind
from features.plan import FoldInputs, FoldValue, Mask, Plan, Tables
from features.program import Program
from features.rows import Rows
from features.saving import SavedPart, Saving, Snapshot
from features.schema import Schema
from features.state import KeyedState

RESERVED_COLUMNS = {"partition", "offset", "event_time", "key", "label_key", "label", "features_digest"}
"""Names of the columns of a training table that are no features."""

NO_TIME = np.iinfo(np.int64).min
"""The watermark of a partition without a well-formed record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompiledSet:
    """A keyed feature set for the kernel.

    Args:
        parts: ``(parts,) int64`` the key's fields, as rows of the columns.
        is_text: ``(parts,) uint8``.
        tables: What is folded and read.
    """

    parts: Int64s
    is_text: Bytes
    tables: Tables

    @property
    def row(self) -> list[int]:
        """Where the kernel finds it; see `features.kernels.process`."""
        it = self.tables
        return [
            address_of(self.parts), address_of(self.is_text), len(self.parts),
            *(number for table in (it.groups, it.lanes, it.cells, it.outputs, it.fills) for number in (address_of(table), len(table))),
            address_of(it.missing), address_of(it.rules), it.words_per_event, it.block_cells,
        ]  # fmt: skip


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
        keyed, inputs = [declared for declared in self.sets if declared.key], FoldInputs()
        plans = [_plan(schema, declared, inputs, number) for number, declared in enumerate(keyed)]
        self.compiled = tuple(
            _compile(schema, declared, plan, places) for declared, plan in zip(keyed, plans, strict=True)
        )
        self._expressions = tuple(_expressions(self.sets, inputs, score_when))
        self.program = Program(schema, self._expressions)
        self.set_rows = _table([compiled.row for compiled in self.compiled], SET_COLUMNS)
        self.tables = (
            *self.program.tables,
            -1 if score_when is None else self.program.place(score_when),
            _table([_places(self.program, mask) for mask in inputs.masks.values()], 2),
            _table([_value_place(self.program, value) for value in inputs.values.values()], 2),
            _table(list(_row_places(self.sets, places, self.program)), 3),
            self.set_rows,
        )

    @cached_property
    def column_fingerprint(self) -> str:
        """Binds models: names, dtypes and meaning of the columns."""
        return column_fingerprint(self.schema, self.sets)

    @cached_property
    def state_fingerprint(self) -> str:
        """Names state: everything that the fold depends on."""
        return state_fingerprint(self.schema, self.sets)

    @cached_property
    def layout(self) -> str:
        """Names how a key's state lies in words; what was saved in another layout can't be taken over."""
        digest = hashlib.sha256()
        for compiled in self.compiled:
            it = compiled.tables
            cells = np.delete(it.cells, [CELL_MASK, CELL_VALUE], axis=1)
            for table in (it.groups, it.lanes[:, LANE_SORT], cells, it.rules[SLOT_BYTES]):
                digest.update(repr(table.tolist()).encode())
        return digest.hexdigest()[:16]

    @property
    def fields(self) -> set[str]:
        """Names of the fields that rows depend on, beside the event time."""
        read = {name for expression in self._expressions for name in expression.fields()}
        return read.union(*(declared.key for declared in self.sets))

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
        if self.score_when is not None:
            with declared_as(f"score_when={self.score_when.text}"):
                if self.score_when.type_in(self.schema) != "boolean":
                    raise Misdeclared("it is neither true nor false; compare it with something")


class PartitionState:
    """The fold of one partition's log: a watermark and a keyed state for each keyed feature set."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._clock = np.array([NO_TIME])
        self._saving: Saving | None = None
        self._states = np.zeros((len(engine.compiled), STATE_COLUMNS), np.int64)
        self._keyed = tuple(
            KeyedState(compiled.tables, row)
            for compiled, row in zip(engine.compiled, self._states, strict=True)
        )

    def process(self, columns: Columns, heights: Int64s | None = None) -> Rows:
        """Read and fold a slice of the partition's well-formed events, in log order.

        Args:
            columns: All of them, or those of a shard of its keys.
            heights: ``(n,) int64`` the partition's watermark after each event, ms; needed of a shard.
        """
        engine, n = self.engine, len(columns)
        if self._saving is not None:
            self._keep(self._saving, columns)
        events = np.empty(n, np.int64)
        block = np.empty((n, len(engine.float_columns)), np.float32)
        ids = np.empty((n, len(engine.category_columns)), np.int64)
        while (count := process_slice(
            *engine.tables, self._states, self._clock, columns.base, columns.words, columns.valid, columns.times,
            columns.times if heights is None else heights, events, block, ids,
        )) == NO_ROOM:  # fmt: skip
            for state in self._keyed:
                state.grow()
        return Rows(block=block[:count], ids=ids[:count], events=events[:count])

    def _keep(self, saving: Saving, columns: Columns) -> None:
        if saving.is_done:
            self._saving = None
        else:
            saving.keep(columns)

    @property
    def keys(self) -> int:
        """Entities held, over all feature sets."""
        return sum(state.keys for state in self._keyed)

    @property
    def size(self) -> int:
        """Bytes of state in use."""
        return sum(state.size for state in self._keyed)

    def begin_saving(self, *, everything: bool = True) -> Saving:
        """Begin to save the state as it is now, every key or those changed since the last saving began; one at a time."""
        sets = [
            state.begin_saving(number, row, everything=everything)
            for number, (state, row) in enumerate(zip(self._keyed, self.engine.set_rows, strict=True))
        ]
        self._saving = Saving(int(self._clock[0]), sets)
        return self._saving

    def load(self, parts: Iterable[SavedPart], watermark: int) -> None:
        """Take over what was saved, in place of what is held of the same keys; the engine's state fingerprint is the same."""
        for part in parts:
            self._keyed[part.number].load(self.engine.set_rows[part.number], part)
        self._clock[0] = watermark

    def snapshot(self) -> Snapshot:
        """All of it, saved at once."""
        saving = self.begin_saving()
        while not saving.is_done:
            saving.step(1 << 30)
        return Snapshot(saving.watermark, saving.take())

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot was taken of, from a new state."""
        self.load(snapshot.parts, snapshot.watermark)


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


def _places(program: Program, mask: Mask) -> tuple[int, int]:
    where, present = (-1 if part is None else program.place(part) for part in (mask.where, mask.present))
    return where, present


def _value_place(program: Program, value: FoldValue) -> tuple[int, int]:
    return program.place(value.of), int(value.as_word or program.type(value.of) in {"number", "text"})


def _row_places(
    sets: Sequence[FeatureSet], places: Mapping[str, int], program: Program
) -> Iterator[tuple[int, int, int]]:
    for name, kind in _kinds(sets):
        if isinstance(kind, RowKind):
            value = kind.value()
            sort = 2 if kind.is_category else int(program.type(value) != "number")
            yield program.place(value), places[name], sort


def _table(rows: Sequence[Sequence[int]], columns: int) -> Int64s:
    return np.array(rows, np.int64).reshape(len(rows), columns)


def _plan(schema: Schema, declared: FeatureSet, inputs: FoldInputs, number: int) -> Plan:
    plan = Plan(schema, inputs, number)
    for kind in declared.features.values():
        assert isinstance(kind, KeyedKind)
        kind.plan(plan)
    return plan


def _compile(schema: Schema, declared: FeatureSet, plan: Plan, places: Mapping[str, int]) -> _CompiledSet:
    tables = plan.tables(
        [places[name] for name in declared.columns],
        ttl=declared.expires_after,
        max_late=schema.time.max_late,
        include_current=declared.include_current,
    )
    return _CompiledSet(
        parts=np.array([schema.place(name) for name in declared.key], np.int64),
        is_text=np.array([schema[name].type is str for name in declared.key], np.uint8),
        tables=tables,
    )


def _expressions(
    sets: Sequence[FeatureSet], inputs: FoldInputs, score_when: Expression | None
) -> Iterator[Expression]:
    """Everything that a slice computes before it is folded."""
    for _, kind in _kinds(sets):
        if isinstance(kind, RowKind):
            yield kind.value()
    for mask in inputs.masks.values():
        yield from (part for part in (mask.where, mask.present) if part is not None)
    yield from (value.of for value in inputs.values.values())
    if score_when is not None:
        yield score_when

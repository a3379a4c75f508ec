"""What holds for every kind of feature, on every stream; kinds and laws are discovered, not listed.

A kind says itself what it means (`KeyedKind.meaning`); brute force applies that to the events of the window, which it
finds from the documentation alone (`tests.features.oracle`). What a law needs to declare a kind, it takes from its
fields: those with names that others have too are drawn from the pools below, any other says
``metadata={"examples": (...)}``.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st

from features.engine import Engine, PartitionState
from features.errors import Misdeclared
from features.expressions import Expression, col, event_time
from features.featureset import FeatureSet
from features.kernels.fold import MISSING_ID
from features.kinds.kind import (
    KeyedKind,
    Kind,
    NumberKind,
    RowKind,
    TextKind,
    WindowedKind,
    WindowedNumberKind,
)
from features.saving import SavedPart
from features.windows import Window
from tests.features import plainly, streams
from tests.features.oracle import Key, Oracle
from tests.features.saved import contents, finished

S = timedelta(seconds=1)
LENGTHS = ((1, 1), (3, 1), (10, 5), (60, 5), (3600, 300), (86_400, 7_200), (90 * 86_400, 86_400))
POOLS: dict[str, Sequence[Any]] = {
    "where": (None, None, col("kind") == "buy", col("amount") > 1, col("shop").is_missing()),
    "missing": (math.nan, -1.0),
    "fill": (None, None, 0.5, "last"),
    "window": [Window(length * S, tile * S) for length, tile in LENGTHS],
    "of": (col("amount"), col("amount") * 0.5, col("shop"), event_time(), col("amount") > 1, col("kind") == "buy"),
    "expression": (col("amount") + 1, col("amount") / col("amount"), event_time().part("hour", "Asia/Kolkata"), col("kind") == "buy"),
    "field": ("amount", "shop", "ts", "kind"),
}  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """A declared kind, in a set of its own, and the state that it is computed with; times in seconds × ``scale``."""

    kind: Kind
    late: int = 20
    ttl: int | None = None
    include_current: bool = False
    scale: int = 1
    state: type[PartitionState] = PartitionState

    def engine(self) -> Engine:
        ttl = None if self.ttl is None else self.ttl * self.scale * S
        keyed: dict[str, Any] = {"key": "card", "ttl": ttl, "include_current": self.include_current}
        declared = FeatureSet(
            features={"it": self.kind}, **(keyed if isinstance(self.kind, KeyedKind) else {})
        )
        return Engine(streams.schema(max_late=self.late * self.scale * S), [declared])

    def new_state(self, engine: Engine | None = None) -> PartitionState:
        return self.state(engine or self.engine())

    def column(
        self, events: streams.Events, cuts: Sequence[int] = (), state: PartitionState | None = None
    ) -> Any:
        """The feature's column, float32 or int64."""
        state = state or self.new_state()
        rows = streams.process(state.engine, events, cuts, state)
        return rows.ids[:, 0] if self.kind.is_category else rows.block[:, 0]


def declarations(kind: type[Kind]) -> st.SearchStrategy[Kind]:
    """Ways to declare a kind that pass its own check."""
    choices: dict[str, Sequence[Any]] = {}
    for declared in dataclasses.fields(kind):
        examples = declared.metadata.get("examples", POOLS.get(declared.name))
        assert examples, f"{kind.__name__}.{declared.name}: give it metadata={{'examples': (...)}}"
        choices[declared.name] = examples
    for name in {"of", "expression", "field"} & set(choices):
        others = {other: examples[0] for other, examples in choices.items() if other != name}
        choices[name] = [value for value in choices[name] if _is_computable(kind, others | {name: value})]
    drawn = st.fixed_dictionaries({name: st.sampled_from(examples) for name, examples in choices.items()})
    return drawn.map(lambda values: kind(**values)).filter(_passes)


def _is_computable(kind: type[Kind], values: Mapping[str, Any]) -> bool:
    return _passes(kind(**values))


def _passes(kind: Kind) -> bool:
    try:
        kind.check(streams.schema())
    except Misdeclared:
        return False
    return True


@st.composite
def settings_of(draw: st.DrawFn, kind: Kind, state: type[PartitionState] = PartitionState) -> Declared:
    return Declared(
        kind,
        late=draw(st.sampled_from([0, 5, 20])),
        ttl=draw(st.sampled_from([None, 4, 30])),
        include_current=draw(st.booleans()),
        scale=draw(st.sampled_from([1, 3600])),
        state=state,
    )


Law = Callable[[st.DataObject, Declared], None]


def law_rows_are_those_of_brute_force(data: st.DataObject, declared: Declared) -> None:
    events = data.draw(streams.streams(scale=declared.scale))
    engine, kind = declared.engine(), declared.kind
    if isinstance(kind, RowKind):
        found = [_as_row(kind, plainly.value_of(kind.value(), event)) for event in events]
    else:
        assert isinstance(kind, KeyedKind)
        expires = engine.sets[0].expires_after
        judge = Oracle(
            key="card",
            readers=[lambda key, now: _as_row(kind, read(kind, key, now))],
            max_late=declared.late * declared.scale * 1000,
            ttl=None if expires is None else expires // timedelta(milliseconds=1),
            include_current=declared.include_current,
            of_nothing=_as_row(kind, None),
        )
        found = [judge.row(event)[0] for event in events]
    expected = np.array(found, np.int64 if kind.is_category else np.float64)
    column = declared.column(events)
    if kind.is_category:
        np.testing.assert_array_equal(column, expected)
    else:
        np.testing.assert_allclose(column, expected.astype(np.float32), rtol=1e-6, atol=1e-5)


def law_cuts_change_nothing(data: st.DataObject, declared: Declared) -> None:
    events = data.draw(streams.streams(scale=declared.scale))
    cuts = data.draw(st.lists(st.integers(0, 200), max_size=8))
    assert declared.column(events, cuts).tobytes() == declared.column(events).tobytes()


def law_a_restored_state_goes_on_alike(data: st.DataObject, declared: Declared) -> None:
    events = data.draw(streams.streams(scale=declared.scale))
    at = data.draw(st.integers(0, len(events)))
    engine = declared.engine()
    state, moved = declared.new_state(engine), declared.new_state(engine)
    declared.column(events[:at], state=state)
    moved.restore(state.snapshot())
    ahead = declared.column(events[at:], state=state)
    assert declared.column(events[at:], state=moved).tobytes() == ahead.tobytes()
    assert contents(moved) == contents(state)


def law_a_saving_is_of_its_beginning_and_changes_make_it_whole(
    data: st.DataObject, declared: Declared
) -> None:
    """Saved key by key while events go on, then what changed since."""
    events = data.draw(streams.streams(scale=declared.scale))
    at = sorted(data.draw(st.tuples(*[st.integers(0, len(events))] * 2)))
    before, beside, after = events[: at[0]], events[at[0] : at[1]], events[at[1] :]
    engine = declared.engine()
    state, behind, moved = (declared.new_state(engine) for _ in range(3))
    declared.column(before, state=state)
    saving, parts, bits = state.begin_saving(), list[SavedPart](), b""
    for event in beside:
        bits += declared.column([event], state=state).tobytes()
        saving.step(1)
        parts += saving.take()
    parts += finished(saving)
    behind.load(parts, saving.watermark)
    assert declared.column(beside, state=behind).tobytes() == bits
    moved.load(parts, saving.watermark)
    changes = state.begin_saving(everything=False)
    moved.load(finished(changes), changes.watermark)
    ahead = declared.column(after, state=state).tobytes()
    assert declared.column(after, state=moved).tobytes() == ahead


def law_other_keys_change_nothing(data: st.DataObject, declared: Declared) -> None:
    events = data.draw(streams.streams(scale=declared.scale))
    alone = [event if event["card"] == "card-0" else {**event, "card": None} for event in events]
    mine = [i for i, event in enumerate(events) if event["card"] == "card-0"]
    assert declared.column(events)[mine].tobytes() == declared.column(alone)[mine].tobytes()


def law_one_key_takes_bounded_memory(data: st.DataObject, declared: Declared) -> None:
    if isinstance(declared.kind, WindowedKind):  # one that the stream fills
        declared = dataclasses.replace(
            declared, kind=dataclasses.replace(declared.kind, window=Window(60 * S, 5 * S))
        )
    step = data.draw(st.sampled_from([300, 1_000, 40_000]))
    state, sizes = declared.new_state(), []
    for round_ in range(6):
        events = [
            {
                "card": "a",
                "shop": f"s{i % 50}",
                "ts": (800 * round_ + i) * step,
                "amount": float(i % 77),
                "kind": "buy",
            }
            for i in range(800)
        ]
        declared.column(events, range(0, 800, 100), state)
        sizes.append(state.size)
    assert sizes[5] <= 1.1 * sizes[2], sizes


def law_keys_that_expire_give_memory_back(data: st.DataObject, declared: Declared) -> None:
    declared = dataclasses.replace(declared, ttl=data.draw(st.sampled_from([4, 30])), late=0, scale=1)
    state, sizes = declared.new_state(), []
    for round_ in range(6):
        events = [
            {
                "card": f"{round_}-{i // 3}",
                "shop": f"s{i}",
                "ts": round_ * 60_000 + i * 20,
                "amount": 1.0 * i,
                "kind": "buy",
            }
            for i in range(600)
        ]
        declared.column(events, range(0, 600, 50), state)
        sizes.append(state.size)
    assert sizes[5] <= 1.2 * sizes[2], sizes


def all_laws() -> list[Law]:
    """Every law, discovered."""
    return [value for name, value in globals().items() if name.startswith("law_")]


def read(kind: KeyedKind, key: Key, now: int) -> float | None:
    """The kind's meaning of the events that take part."""
    if isinstance(kind, WindowedKind):
        window = kind.windowed()
        events = key.window(now, window.length_ms, window.tile_ms)
    else:
        events = key.events
    of, fill = _value(kind), kind.fill if isinstance(kind, NumberKind | WindowedNumberKind) else None
    taken = []
    for time, event in events:
        value = 0 if of is None else plainly.value_of(of, event)
        if value is None and fill is not None:
            value = _last_known(key, event, of) if fill == "last" else fill
        is_in = kind.where is None or plainly.value_of(kind.where, event) is True
        if is_in and value is not None:
            taken.append((time, plainly.id_of(value) if isinstance(value, str) else value))
    return kind.meaning(taken, now)


def _value(kind: KeyedKind) -> Expression | None:
    if isinstance(kind, TextKind):
        return kind.text
    found: Expression | None = getattr(kind, "of", None)
    return found


def _last_known(key: Key, event: Mapping[str, Any], of: Expression | None) -> Any:
    """The newest value of the entity when the event was folded."""
    assert of is not None
    before = key.events[: next(i for i, (_, each) in enumerate(key.events) if each is event)]
    known = [(time, value) for time, each in before if (value := plainly.value_of(of, each)) is not None]
    newest: Any = max(enumerate(known), key=lambda item: (item[1][0], item[0]), default=(0, (0, None)))
    return newest[1][1]


def _as_row(kind: Kind, value: Any) -> Any:
    """As the column holds it."""
    if kind.is_category:
        return MISSING_ID if value is None else plainly.id_of(value) if isinstance(value, str) else value
    missing = kind.missing if isinstance(kind, KeyedKind) else math.nan
    return missing if value is None else value

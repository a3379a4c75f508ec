import dataclasses
import itertools
import typing
from datetime import timedelta
from typing import Any

import pytest

from features.engine import Engine
from features.errors import Misdeclared
from features.expressions import Expression, col
from features.featureset import FeatureSet
from features.kinds import category, count, distinct, mean, quantile, raw, time_part
from features.kinds.kind import KeyedKind, Kind, RowKind, all_kinds
from features.plan import Fill
from features.schema import EventTime, Field, Schema
from features.windows import Window

H = timedelta(hours=1)
FIELDS = (
    Field(name="card", type=str),
    Field(name="ts", type=int),
    Field(name="amount", type=float, optional=True),
    Field(name="shop", type=str),
)
SCHEMA = Schema(fields=FIELDS, key="card", time=EventTime(field="ts"))
ROW = FeatureSet(
    features={"amount": raw("amount"), "shop": category("shop"), "hour": time_part("hour", "Europe/Berlin")}
)
KEYED = FeatureSet(key="card", features={"n": count(window=H), "mean": mean("amount", window=H)})


def fingerprints(
    schema: Schema = SCHEMA, row: FeatureSet = ROW, keyed: FeatureSet = KEYED, **options: Any
) -> tuple[str, str]:
    engine = Engine(schema, [row, keyed], **options)
    return engine.state_fingerprint, engine.column_fingerprint


def with_fields(*fields: Field, time: EventTime = SCHEMA.time) -> Schema:
    return Schema(fields=fields, key="card", time=time)


def test_equal_declarations_have_equal_fingerprints() -> None:
    assert fingerprints() == fingerprints(with_fields(*FIELDS))


def test_a_field_that_nobody_reads_changes_neither() -> None:
    assert fingerprints(with_fields(*FIELDS, Field(name="new", type=float, optional=True))) == fingerprints()
    assert fingerprints(with_fields(*reversed(FIELDS))) == fingerprints()


def test_a_path_that_says_the_name_changes_neither() -> None:
    for path in ("shop", '["shop"]'):
        assert (
            fingerprints(with_fields(*FIELDS[:3], Field(name="shop", type=str, path=path))) == fingerprints()
        )


def test_a_kind_whose_layout_changed_changes_the_state_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (distinct("shop", window=H), quantile("amount", 0.5, window=H)):
        keyed = FeatureSet(key="card", features={**KEYED.features, "it": kind})
        with monkeypatch.context() as earlier:
            earlier.setattr(type(kind), "layout", 0)
            state, column = fingerprints(keyed=keyed)
        assert fingerprints(keyed=keyed)[0] != state
        assert fingerprints(keyed=keyed)[1] == column


def test_scoring_other_events_changes_neither() -> None:
    assert fingerprints(score_when=col("shop") == "x") == fingerprints()


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": with_fields(*FIELDS, time=EventTime(field="ts", unit="s"))},
        {"schema": with_fields(*FIELDS, time=EventTime(field="ts", max_late=H))},
        {
            "schema": with_fields(
                *FIELDS[:2], Field(name="amount", type=float, optional=True, path="money.amount"), FIELDS[3]
            )
        },
        {"schema": with_fields(*FIELDS[:2], Field(name="amount", type=int, optional=True), FIELDS[3])},
        {
            "schema": with_fields(
                *FIELDS[:2], Field(name="amount", type=float, optional=True, quoted=True), FIELDS[3]
            )
        },
        {
            "keyed": FeatureSet(
                key="card", features={"n": count(window=2 * H), "mean": mean("amount", window=H)}
            )
        },
        {
            "keyed": FeatureSet(
                key="card", features={"n": count(window=Window(H, H)), "mean": mean("amount", window=H)}
            )
        },
        {
            "keyed": FeatureSet(
                key="card",
                features={"n": count(window=H, where=col("shop") == "x"), "mean": mean("amount", window=H)},
            )
        },
        {"keyed": dataclasses.replace(KEYED, ttl=9 * H)},
        {"keyed": dataclasses.replace(KEYED, include_current=True)},
        {"keyed": dataclasses.replace(KEYED, key=("card", "shop"), name="card")},
    ],
)
def test_a_change_of_the_folds_meaning_changes_both(changed: dict[str, Any]) -> None:
    state, column = fingerprints(**changed)
    assert state != fingerprints()[0]
    assert column != fingerprints()[1]


@pytest.mark.parametrize(
    "row",
    [
        FeatureSet(
            features={
                "amount": raw("amount"),
                "shop": category("shop"),
                "hour": time_part("hour", "Europe/London"),
            }
        ),
        FeatureSet(
            features={
                "shop": category("shop"),
                "amount": raw("amount"),
                "hour": time_part("hour", "Europe/Berlin"),
            }
        ),
        FeatureSet(
            features={
                "amt": raw("amount"),
                "shop": category("shop"),
                "hour": time_part("hour", "Europe/Berlin"),
            }
        ),
    ],
)
def test_a_change_of_the_columns_alone_changes_the_column_fingerprint(row: FeatureSet) -> None:
    state, column = fingerprints(row=row)
    assert state == fingerprints()[0]
    assert column != fingerprints()[1]


# ---------------------------------------------------------------- every kind, discovered

WIDE = Schema(
    fields=[
        *FIELDS,
        Field(name="price", type=float),
        Field(name="city", type=str),
        Field(name="flag", type=bool, optional=True),
        Field(name="other", type=bool, optional=True),
    ],
    key="card",
    time=EventTime(field="ts"),
)
CHOICES: dict[Any, tuple[Any, ...]] = {
    str: ("amount", "price", "shop", "city"),
    int: (2, 3),
    float: (0.25, 0.75),
    timedelta: (H, 2 * H),
    Window | timedelta: (H, 2 * H, Window(H, H)),
    Expression: (col("flag"), col("other"), col("amount"), col("price"), col("amount") * 2),
    Expression | None: (None, col("shop") == "x", col("shop") == "y"),
    Fill: (None, 0.25, "last"),
}
"""Values of a kind's fields by their types, no two of one meaning; those that a kind refuses are passed over."""

Declared = dict[str, Any]


def prints(kind: Kind, *, name: str = "x") -> tuple[str, str]:
    """State and column fingerprint of a pipeline with that feature."""
    key = "card" if isinstance(kind, KeyedKind) else ()
    engine = Engine(WIDE, [FeatureSet(key=key, name="it", features={name: kind}), *([] if key else [KEYED])])
    return engine.state_fingerprint, engine.column_fingerprint


def usable(kind: type[Kind], declared: Declared) -> Kind | None:
    try:
        prints(made := kind(**declared))
    except Misdeclared:
        return None
    return made


def variants(kind: type[Kind]) -> tuple[Kind, dict[str, list[Kind]]]:
    """One of that kind, and by field those that differ from it in that field alone."""
    hints = typing.get_type_hints(kind)
    names = [declared.name for declared in dataclasses.fields(kind)]
    for name in names:
        assert hints[name] in CHOICES, (
            f"{kind.__name__}.{name} is a {hints[name]}: give CHOICES two of that type"
        )
    firsts = itertools.product(*(CHOICES[hints[name]] for name in names))
    plain = next(each for values in firsts if (each := usable(kind, dict(zip(names, values, strict=True)))))
    found = {}
    for name in names:
        base = {other: getattr(plain, other) for other in names}
        others = [usable(kind, {**base, name: value}) for value in CHOICES[hints[name]]]
        found[name] = [each for each in others if each is not None and each.describe() != plain.describe()]
    return plain, found


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_field_of_every_kind_has_a_part_in_the_fingerprints(kind: type[Kind]) -> None:
    plain, found = variants(kind)
    state, column = prints(plain)
    assert prints(dataclasses.replace(plain)) == (state, column)
    for name, others in found.items():
        assert others, f"no other {name} of {kind.__name__} is usable, or none has a part in describe()"
        for other in others:
            assert prints(other)[1] != column
            assert (prints(other)[0] == state) == isinstance(plain, RowKind)
    everything = [plain, *itertools.chain(*found.values())]
    assert len({prints(each)[1] for each in everything}) == len(everything)


def test_no_two_kinds_have_one_fingerprint() -> None:
    plain = [variants(kind)[0] for kind in all_kinds()]
    assert len({prints(each)[1] for each in plain}) == len(plain)
    keyed = [each for each in plain if isinstance(each, KeyedKind)]
    assert len({prints(each)[0] for each in keyed}) == len(keyed)


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_another_name_is_another_column(kind: type[Kind]) -> None:
    plain, _ = variants(kind)
    assert prints(plain, name="y")[1] != prints(plain)[1]


# ---------------------------------------------------------------- order, windows, additions


def test_features_in_another_order_have_another_state() -> None:
    """What is folded lies in the order in which it was declared."""
    turned = FeatureSet(key="card", features=dict(reversed(list(KEYED.features.items()))))
    state, column = fingerprints(keyed=turned)
    assert state != fingerprints()[0]
    assert column != fingerprints()[1]


def test_one_meaning_written_in_two_ways_is_one() -> None:
    same = FeatureSet(
        key=["card"],
        name="card",
        ttl=KEYED.expires_after,
        features={"n": count(window=Window(H)), "mean": mean(col("amount"), window=H, missing=float("nan"))},
    )
    assert fingerprints(keyed=same) == fingerprints()


@pytest.mark.parametrize(
    "time",
    [
        EventTime(field="ts", max_ahead=2 * H),
        EventTime(field="ts", max_late=timedelta(0)),
        EventTime(field="ts", unit="us"),
        EventTime(field="at"),
    ],
)
def test_what_time_means_is_in_both(time: EventTime) -> None:
    fields = (*FIELDS, Field(name="at", type=int))
    before, after = fingerprints(with_fields(*fields)), fingerprints(with_fields(*fields, time=time))
    assert before == fingerprints()
    assert before[0] != after[0]
    assert before[1] != after[1]


@pytest.mark.parametrize("extra", [str, int, float, bool])
@pytest.mark.parametrize("place", range(len(FIELDS) + 1))
@pytest.mark.parametrize("optional", [True, False])
def test_a_pure_addition_changes_neither_wherever_it_stands(extra: Any, place: int, optional: bool) -> None:
    new = Field(name="new", type=extra, optional=optional, path="deep.new")
    assert fingerprints(with_fields(*FIELDS[:place], new, *FIELDS[place:])) == fingerprints()


def test_a_feature_of_the_event_alone_leaves_the_state() -> None:
    more = FeatureSet(features={**ROW.features, "again": raw("amount")})
    state, column = fingerprints(row=more)
    assert state == fingerprints()[0]
    assert column != fingerprints()[1]


@pytest.mark.parametrize("field", range(len(FIELDS)))
def test_a_field_that_is_read_has_its_type_optionality_and_place_in_both(field: int) -> None:
    mine = FIELDS[field]
    changed = [dataclasses.replace(mine, path=f"deep.{mine.name}")]
    if mine.name != "ts":
        changed.append(dataclasses.replace(mine, optional=not mine.optional))
    if mine.name == "card":
        changed.append(dataclasses.replace(mine, type=int))
    for each in changed:
        state, column = fingerprints(with_fields(*FIELDS[:field], each, *FIELDS[field + 1 :]))
        assert column != fingerprints()[1]
        reads_it = mine.name in {"card", "ts", "amount"}
        assert (state != fingerprints()[0]) == reads_it

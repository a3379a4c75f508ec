import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from features.engine import Engine
from features.expressions import col
from features.featureset import FeatureSet
from features.kinds import category, count, mean, raw, time_part
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

"""A pipeline of 12 features drawn by seed from all kinds, so that no figure is fitted to one set of them.

``benchmarks.drawn:seed_7`` is the one of seed 7. Kinds are discovered, and declared from their fields: those with names
that others have too are drawn from the pools below, any other says ``metadata={"examples": (...)}``.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import cache
from typing import Any

from features.errors import Misdeclared
from features.expressions import col, event_time
from features.featureset import FeatureSet
from features.kinds.kind import KeyedKind, Kind, all_kinds
from pipelines.card_fraud import is_payment, schema
from pipelines.card_fraud import pipeline as card_fraud
from pipelines.pipeline import Pipeline

FEATURES = 12
NAME = "drawn"

_POOLS: Mapping[str, Sequence[Any]] = {
    "where": (None, is_payment, col("amount") > 20, col("online") == 1),
    "missing": (0.0, -1.0),
    "fill": (None, 0.5, "last"),
    "window": tuple(timedelta(minutes=minutes) for minutes in (10, 60, 360, 1440)),
    "of": (col("amount"), col("amount") * 0.5, col("merchant"), col("device"), event_time(), col("amount") > 20),
    "expression": (col("amount") * 2 + 1, event_time().part("hour", "Europe/Berlin"), col("country") == "DE"),
    "field": ("amount", "merchant", "category", "device", "country", "online"),
}  # fmt: skip
"""None of them leaves a value missing: the model takes numbers."""
_TRIES = 1000
_PREFIX = "seed_"


@cache
def drawn(seed: int) -> Pipeline:
    """On the topic of card_fraud, scoring the same events."""
    chance = random.Random(seed)
    chosen = sorted(chance.sample(all_kinds(), FEATURES), key=lambda kind: kind.__name__)
    kinds = {kind.__name__.lower(): _declared(kind, chance) for kind in chosen}
    of_event = {name: kind for name, kind in kinds.items() if not isinstance(kind, KeyedKind)}
    of_card = {name: kind for name, kind in kinds.items() if isinstance(kind, KeyedKind)}
    sets = (FeatureSet(features=of_event) if of_event else None, FeatureSet(key="card", features=of_card))
    return Pipeline(
        name=NAME,
        source=card_fraud.source,
        features=[declared for declared in sets if declared is not None],
        score_when=is_payment,
        model=NAME,
    )


def described(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """What is computed, by column."""
    return {
        column: kind.describe()
        for declared in pipeline.features
        for column, kind in zip(declared.columns, declared.features.values(), strict=True)
    }


def reference(seed: int) -> str:
    """What a worker is told to load."""
    return f"{__name__}:{_PREFIX}{seed}"


def _declared(kind: type[Kind], chance: random.Random) -> Kind:
    """A way to declare it that passes its own check."""
    for _ in range(_TRIES):
        declared = kind(
            **{each.name: chance.choice(_examples(kind, each.name, each.metadata)) for each in fields(kind)}
        )
        try:
            declared.check(schema)
        except Misdeclared:
            continue
        return declared
    raise Misdeclared(f"{kind.__name__} can't be declared from the pools; add what it needs")


def _examples(kind: type[Kind], name: str, metadata: Mapping[Any, Any]) -> Sequence[Any]:
    found: Sequence[Any] | None = metadata.get("examples", _POOLS.get(name))
    if found is None:
        raise Misdeclared(f"{kind.__name__}.{name}: give it metadata={{'examples': (...)}}")
    return found


def __getattr__(name: str) -> Pipeline:
    if name.startswith(_PREFIX):
        return drawn(int(name.removeprefix(_PREFIX)))
    raise AttributeError(name)

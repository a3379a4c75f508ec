"""Fingerprints: what names state, and what binds models.

The *state fingerprint* covers everything that the fold and its layout depend on, the *column fingerprint*
the names, dtypes, order and meaning of the columns. Neither covers fields that no feature reads, nor anything learned.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from features.featureset import FeatureSet
from features.kinds.kind import KeyedKind
from features.schema import Schema
from features.zones import zone

ENGINE_VERSION = 1
"""Counts changes of every state's layout and of what the kinds compute; `KeyedKind.layout` those of one kind's."""

_MILLISECOND = timedelta(milliseconds=1)


def state_fingerprint(schema: Schema, sets: Sequence[FeatureSet]) -> str:
    """Sixteen hex digits that differ if any part of the fold's meaning does."""
    keyed = [declared for declared in sets if declared.key]
    described = {
        "engine": ENGINE_VERSION,
        "codec": "json",
        "schema": _schema(schema, keyed),
        "sets": [declared.describe() for declared in keyed],
        "order": [declared.columns for declared in keyed],  # what is folded lies in it
        "zones": _zones(keyed),
    }
    if layouts := _layouts(keyed):
        described["layouts"] = layouts
    return _digest(described)


def column_fingerprint(schema: Schema, sets: Sequence[FeatureSet]) -> str:
    """Sixteen hex digits that differ if a column's name, dtype, place or meaning does."""
    dtypes = [
        [name, "int64" if kind.is_category else "float32"]
        for declared in sets
        for name, kind in zip(declared.columns, declared.features.values(), strict=True)
    ]
    return _digest(
        {
            "columns": dtypes,
            "schema": _schema(schema, sets),
            "sets": [declared.describe() for declared in sets],
            "zones": _zones(sets),
        }
    )


def _schema(schema: Schema, sets: Sequence[FeatureSet]) -> dict[str, Any]:
    read = {name for declared in sets for name in declared.fields()} | {schema.key, schema.time.field}
    return {
        "key": schema.key,
        "time": [
            schema.time.field,
            schema.time.unit,
            schema.time.max_late // _MILLISECOND,
            schema.time.max_ahead // _MILLISECOND,
        ],
        "fields": schema.describe(sorted(read)),
    }


def _layouts(sets: Sequence[FeatureSet]) -> dict[str, int]:
    """Of the kinds whose state lies otherwise than at first, how often that changed."""
    kinds = [kind for declared in sets for kind in declared.features.values()]
    return {type(kind).__name__: kind.layout for kind in kinds if isinstance(kind, KeyedKind) and kind.layout}


def _zones(sets: Sequence[FeatureSet]) -> dict[str, str]:
    names = {
        name for declared in sets for expression in declared.expressions() for name in expression.zones()
    }
    return {name: zone(name).digest for name in sorted(names)}


def _digest(described: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(described, order="deterministic")).hexdigest()[:16]

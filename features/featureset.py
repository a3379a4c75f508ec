"""Feature sets: named features over one entity key."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from features.errors import Misdeclared, declared_as
from features.expressions import Expression
from features.kinds.kind import KeyedKind, Kind, RowKind, WindowedKind
from features.schema import Schema
from features.windows import Window, as_window, short_name


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSet:
    """An ordered set of features over one entity key; a column of each.

    Args:
        key: The fields that name the entity, ``()`` for features of the event alone. A set whose key
            does not contain the schema's partition key can't be computed on one partition.
        features: Name to feature. A keyed set's column is called ``set.feature``.
        name: By default the key's fields, joined by ``_``.
        ttl: An entity that has had no event for this long starts anew. By default never, or in a set
            of windows only, the longest window and its tile.
        include_current: Whether an event counts for its own row.
    """

    features: Mapping[str, Kind]
    key: Sequence[str] | str = ()
    name: str = ""
    ttl: timedelta | None = None
    include_current: bool = False
    _column_names: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise Misdeclared(f"FeatureSet features is {self.features!r}; write a dict of name to kind")
        key = (self.key,) if isinstance(self.key, str) else tuple(self.key)
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "name", self.name or "_".join(key))
        object.__setattr__(self, "features", dict(self.features))
        if not self.features:
            raise Misdeclared(f"FeatureSet {self.name!r} has no features; declare at least one")
        for name, kind in self.features.items():
            self._check_kind(name, kind)
        if self.ttl is not None and not isinstance(self.ttl, timedelta):
            raise Misdeclared(f"FeatureSet {self.name!r} has ttl {self.ttl!r}; write timedelta(...)")
        if self.ttl is not None and self.ttl <= timedelta(0):
            raise Misdeclared(
                f"FeatureSet {self.name!r} has ttl {self.ttl}; it has to be positive, or None for never"
            )
        prefix = f"{self.name}." if key else ""
        object.__setattr__(self, "_column_names", tuple(prefix + name for name in self.features))

    def _check_kind(self, name: str, kind: object) -> None:
        if not isinstance(kind, Kind):
            raise Misdeclared(
                f"Feature {name!r} is {kind!r}; use a kind of features.kinds, such as mean('amount', window=...)"
            )
        for what in ("of", "where"):
            given = getattr(kind, what, None)
            if given is not None and not isinstance(given, Expression):
                raise Misdeclared(
                    f"Feature {name!r} has {what}={given!r}; write an expression, such as col('amount') > 100"
                )
        if isinstance(kind, KeyedKind) and not isinstance(kind.missing, int | float):
            raise Misdeclared(
                f"Feature {name!r} has missing={kind.missing!r}; write a number, or float('nan')"
            )
        if isinstance(kind, KeyedKind) and not self.key:
            raise Misdeclared(
                f"Feature {name!r} is a {_kind_name(kind)} of earlier events, and its FeatureSet has no key="
            )
        if isinstance(kind, RowKind) and self.key:
            raise Misdeclared(
                f"Feature {name!r} is a {_kind_name(kind)} of the event alone; put it into a FeatureSet without key="
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._column_names

    def check(self, schema: Schema) -> None:
        """Raise `Misdeclared`, naming feature and fix, if anything can't be computed from these fields."""
        if twice := [name for name in self.key if self.key.count(name) > 1]:
            raise Misdeclared(f"FeatureSet {self.name!r} has {twice[0]!r} in its key twice; name it once")
        for name in self.key:
            with declared_as(f"FeatureSet {self.name!r} key"):
                if schema[name].type not in {str, int}:
                    raise Misdeclared(f"field {name!r} is a {schema[name].type.__name__}; use str or int")
        if self.key and schema.key not in self.key:
            raise Misdeclared(
                f"FeatureSet {self.name!r} is keyed by {', '.join(self.key)} without the partition key {schema.key!r}: "
                f"its events are spread over partitions; add {schema.key!r} to the key"
            )
        for name, kind in self.features.items():
            with declared_as(f"Feature {name!r} of {self.name or 'the event'!r}"):
                kind.check(schema)

    def expressions(self) -> Iterator[Expression]:
        """Every expression of every feature."""
        for kind in self.features.values():
            yield from kind.expressions()

    def fields(self) -> set[str]:
        """Names of the fields that the features and the key read."""
        return {name for expression in self.expressions() for name in expression.fields()} | set(self.key)

    @property
    def expires_after(self) -> timedelta | None:
        """The declared or default ttl."""
        if self.ttl is not None or not self.key:
            return self.ttl
        kinds = list(self.features.values())
        windows = [kind.windowed() for kind in kinds if isinstance(kind, WindowedKind)]
        return max(window.length + window.tile for window in windows) if len(windows) == len(kinds) else None

    def describe(self) -> dict[str, Any]:
        """What it means, as JSON."""
        ttl = self.expires_after
        return {
            "key": list(self.key),
            "ttl": None if ttl is None else ttl // timedelta(milliseconds=1),
            "include_current": self.include_current,
            "features": {
                name: kind.describe() for name, kind in zip(self.columns, self.features.values(), strict=True)
            },
        }


def over(windows: Sequence[Window | timedelta], **kinds: WindowedKind) -> dict[str, Kind]:
    """Each feature over each window, named ``feature_1h`` and so on."""
    return {
        f"{name}_{short_name(window.length)}": dataclasses.replace(kind, window=window)
        for name, kind in kinds.items()
        for window in map(as_window, windows)
    }


def _kind_name(kind: Kind) -> str:
    return type(kind).__name__.lower()

"""What an event looks like: its fields, its partition key and its event time."""

import difflib
import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from features.errors import Misdeclared, declared_as
from features.paths import FieldPath, parse_path, path_text

FieldType = type[str] | type[int] | type[float] | type[bool]
Unit = Literal["s", "ms", "us", "ns", "iso8601"]

_TYPES: tuple[FieldType, ...] = (str, int, float, bool)
_CONSTANTS = {"True", "False", "inf", "nan"}
"""Texts of constants in expressions, which a field's name can't be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One named value of an event.

    Args:
        name: The column's name, and the JSON field's unless ``path`` says otherwise.
        type: ``str``, ``int`` (64 bits), ``float`` (64 bits) or ``bool``.
        optional: Whether the field may be absent or null; it is then missing.
        path: Where the value stands in the event, if not under its name: ``card.id`` in an object, ``items[0]``
            in an array, ``["card.id"]`` under a name with dots; see `features.paths`.
        quoted: Whether the number may stand in quotes, as a text: decimals of Debezium, 64-bit integers of
            protobuf's JSON.
    """

    name: str
    type: FieldType
    optional: bool = False
    path: str = ""
    quoted: bool = False
    json_path: FieldPath = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise Misdeclared(f"Field name {self.name!r} is not an identifier; name it and give its path=")
        if self.name in _CONSTANTS:
            raise Misdeclared(
                f"Field name {self.name!r} is a constant in expressions; name it and give its path="
            )
        if self.type not in _TYPES:
            names = ", ".join(t.__name__ for t in _TYPES)
            raise Misdeclared(f"Field {self.name!r} has type {self.type!r}; use one of {names}")
        if self.quoted and self.type not in {int, float}:
            raise Misdeclared(
                f"Field {self.name!r} is quoted and a {self.type.__name__}; quoted=True is for int and float"
            )
        with declared_as(f"Field {self.name!r}"):
            path = parse_path(self.path) if self.path else (self.name,)
        object.__setattr__(self, "json_path", path)

    def describe(self) -> list[Any]:
        """What gives the field its meaning."""
        described = [self.type.__name__, self.optional, path_text(self.json_path)]
        return [*described, "quoted"] if self.quoted else described


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Which field says when an event happened, and what is too early or too late.

    Args:
        field: Name of a declared field: a number in ``unit`` since the epoch, or ISO 8601 text.
        unit: ``"s"``, ``"ms"``, ``"us"``, ``"ns"`` or ``"iso8601"`` (without a zone: UTC).
        max_late: How far behind its partition's watermark an event is still folded; an older one is
            only read.
        max_ahead: How far past its Kafka timestamp an event may be; one further ahead is malformed.
    """

    field: str
    unit: Unit = "ms"
    max_late: timedelta = timedelta(minutes=5)
    max_ahead: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.unit not in {"s", "ms", "us", "ns", "iso8601"}:
            raise Misdeclared(
                f"EventTime unit {self.unit!r} is unknown; use 's', 'ms', 'us', 'ns' or 'iso8601'"
            )
        for name in ("max_late", "max_ahead"):
            if not isinstance(getattr(self, name), timedelta):
                raise Misdeclared(f"EventTime {name} is {getattr(self, name)!r}; write timedelta(...)")
            if getattr(self, name) < timedelta(0):
                raise Misdeclared(f"EventTime {name} is negative; use timedelta(0) for none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The declared shape of a topic's events; unknown fields are ignored.

    Args:
        fields: The fields that features, labels and predictions may use.
        key: The field that is the topic's partition key (``str`` or ``int``); a record whose Kafka key
            is not this value's text in UTF-8 is malformed. A null key in both is allowed if optional.
        time: The event time.
    """

    fields: Sequence[Field]
    key: str
    time: EventTime
    _by_name: dict[str, Field] = field(init=False, repr=False, compare=False)
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if strange := [declared for declared in self.fields if not isinstance(declared, Field)]:
            raise Misdeclared(f"Schema fields holds {strange[0]!r}; write Field(name=..., type=...)")
        by_name = {declared.name: declared for declared in self.fields}
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "_places", {name: place for place, name in enumerate(by_name)})
        names = [declared.name for declared in self.fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Misdeclared(
                f"Schema declares {', '.join(map(repr, twice))} more than once; names are unique"
            )
        self._check_paths()
        self._check_type("key", self.key, (str, int))
        self._check_type(
            "time.field", self.time.field, (str,) if self.time.unit == "iso8601" else (int, float)
        )
        if self[self.time.field].optional:
            raise Misdeclared(
                f"Schema time field {self.time.field!r} is optional; an event without time can't be used"
            )

    def _check_paths(self) -> None:
        paths = [declared.json_path for declared in self.fields]
        for path, other in itertools.permutations(paths, 2):
            shared = len(
                list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(path, other, strict=False)))
            )
            if shared == len(path) == len(other):
                raise Misdeclared(
                    f"Schema has two fields with one path, {path_text(path)!r}; declare it once"
                )
            if shared == len(path):
                raise Misdeclared(
                    f"Schema paths {path_text(path)!r} and {path_text(other)!r} can't both be values: one holds the other"
                )
            if shared < len(other) and type(path[shared]) is not type(other[shared]):
                raise Misdeclared(
                    f"Schema paths {path_text(path)!r} and {path_text(other)!r} can't both be: {path_text(path[:shared])!r} is an array or an object"
                )

    def _check_type(self, what: str, name: str, allowed: tuple[FieldType, ...]) -> None:
        with declared_as(f"Schema {what}"):
            if self[name].type not in allowed:
                names = " or ".join(t.__name__ for t in allowed)
                raise Misdeclared(f"field {name!r} is a {self[name].type.__name__}; it has to be {names}")

    def __getitem__(self, name: str) -> Field:
        if name in self._by_name:
            return self._by_name[name]
        raise Misdeclared(f"There is no field {name!r} in the schema; {did_you_mean(name, self._by_name)}")

    def place(self, name: str) -> int:
        """The field's row in columns."""
        return self._places[name]

    def only(self, names: Collection[str]) -> "Schema":
        """The same with these fields alone; key and event time have to be among them."""
        return Schema(
            fields=[declared for declared in self.fields if declared.name in names],
            key=self.key,
            time=self.time,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        """What of this schema gives the named fields their meaning; for fingerprints."""
        return {name: self[name].describe() for name in sorted(set(names))}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The second half of an error about a misspelt name."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, known)) or 'nothing'}"

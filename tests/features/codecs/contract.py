"""What both decoders of JSON are held to: rows drawn for a schema, mutations of rows, and Python's own `json`."""

import json
import math
import random
import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from features.codecs.json import Decoded, JsonCodec
from features.errors import Misdeclared
from features.paths import look_up, path_text, put
from features.schema import EventTime, Field, Schema

Outcome = tuple[Any, ...] | str

NAMES = ("a", "b", "id", "größe", "dotted.name", "", "a longer name than sixteen bytes", "0")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


def outcomes(schema: Schema, decoded: Decoded) -> list[Outcome]:
    """Each row's values, floats as their bits, or why it is malformed."""
    data = decoded.buffer.tobytes()
    columns = []
    for column, field in enumerate(schema.fields):
        words, valid = decoded.words[column].tolist(), decoded.valid[column].tolist()
        if field.type is str:
            words = [
                data[word >> 24 : (word >> 24) + (word & 0xFFFFFF)] if there else None
                for word, there in zip(words, valid, strict=True)
            ]
        columns.append([word if there else None for word, there in zip(words, valid, strict=True)])
    rows = range(decoded.words.shape[1])
    return [
        f"{decoded.malformed[row].reason}: {decoded.malformed[row].detail}"
        if row in decoded.malformed
        else tuple(column[row] for column in columns)
        for row in rows
    ]


def decided(schema: Schema, rows: Sequence[bytes | None]) -> list[Outcome]:
    """What becomes of the rows; both decoders agree on it, whatever stands beside a row, and so does `json`."""
    judged = outcomes(schema, JsonCodec(schema, scans=False).decode(rows))
    codec = JsonCodec(schema)
    for together in (outcomes(schema, codec.decode(rows)), outcomes(schema, codec.decode(rows))):
        for row, mine, theirs in zip(rows, together, judged, strict=True):
            assert mine == theirs, row
    for row, outcome in zip(rows, judged, strict=True):
        expected = by_stdlib(schema, row)
        assert (None if isinstance(outcome, str) else outcome) == expected, (row, outcome)
    return judged


def by_stdlib(schema: Schema, row: bytes | None) -> tuple[Any, ...] | None:
    """The row's words by Python's `json` and what the documentation says; ``None`` if it is malformed."""
    try:
        event = json.loads((row or b"").decode(), parse_constant=_refuse, object_pairs_hook=_Pairs)
        if not isinstance(event, _Pairs) or _depth(event) > 128 or _has_lone_surrogate(event):
            return None
        _check(schema, event, ())
        return tuple(_word(field, look_up(event, field.json_path)) for field in schema.fields)
    except (ValueError, RecursionError):
        return None


class _Pairs(dict[str, Any]):
    """An object that still knows every pair: each of the values of one name has to be well-formed."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _children(value: Any) -> list[Any]:
    if isinstance(value, _Pairs):
        return [child for _, child in value.pairs]
    return value if isinstance(value, list) else []


def _depth(value: Any) -> int:
    if not isinstance(value, (_Pairs, list)):
        return 0
    return 1 + max(map(_depth, _children(value)), default=0)


def _has_lone_surrogate(value: Any) -> bool:
    texts = (
        [name for name, _ in value.pairs]
        if isinstance(value, _Pairs)
        else [value]
        if isinstance(value, str)
        else []
    )
    return any("\ud800" <= c <= "\udfff" for text in texts for c in text) or any(
        map(_has_lone_surrogate, _children(value))
    )


def _check(schema: Schema, value: Any, at: tuple[str | int, ...]) -> None:
    """Raise ValueError unless the value at a path is one that the fields at and under it can have."""
    inside = [field for field in schema.fields if field.json_path[: len(at)] == at]
    if value is None and any(not field.optional for field in inside):
        raise ValueError("null")
    if value is None or not inside:
        return
    if inside[0].json_path == at:
        _word(inside[0], value)
        return
    is_array = isinstance(inside[0].json_path[len(at)], int)
    if not isinstance(value, list if is_array else _Pairs):
        raise ValueError("another type")  # noqa: TRY004 - as json itself raises
    pairs: list[tuple[Any, Any]] = value.pairs if isinstance(value, _Pairs) else list(enumerate(value))
    last = dict(pairs)
    for step, item in pairs:
        is_read = not isinstance(item, str) or item is last[step]
        if is_read or not any(field.quoted for field in inside if field.json_path == (*at, step)):
            _check(schema, item, (*at, step))
    there = {step for step, _ in pairs}
    if any(not field.optional and field.json_path[len(at)] not in there for field in inside):
        raise ValueError("missing")


def _word(field: Field, value: Any) -> Any:
    """The word, or a text's bytes; raises ValueError if the field can't have the value."""
    if value is None:
        return None
    if isinstance(value, str) and field.quoted:
        if not _NUMBER.fullmatch(value):
            raise ValueError("no number")
        value = json.loads(value)
    if field.type is str and isinstance(value, str):
        return value.encode()
    if field.type is bool and isinstance(value, bool):
        return int(value)
    types = (int, float) if field.type is float else (int,)
    if isinstance(value, bool) or field.type in {str, bool} or not isinstance(value, types):
        raise ValueError("wrong type")
    if field.type is float:
        return struct.unpack("q", struct.pack("d", _nearest(value)))[0]
    if not -(2**63) <= value < 2**63:
        raise ValueError("int64")
    return value


def _nearest(number: float) -> float:
    try:
        nearest = float(number)
    except OverflowError as error:
        raise ValueError("float64") from error
    if math.isinf(nearest):
        raise ValueError("float64")
    return nearest


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Fields of every type, plain and nested, optional or not; the key and the time may be nested too."""
    steps = st.sampled_from(NAMES) | st.integers(0, 3)
    paths = draw(st.lists(st.lists(steps, min_size=1, max_size=3), max_size=6))
    fields = [
        Field(
            name="k",
            type=draw(st.sampled_from([str, int])),
            path=draw(st.sampled_from(["", "card.id", "list[1]"])),
        ),
        Field(name="t", type=int, path=draw(st.sampled_from(["", "card.at"])), quoted=draw(st.booleans())),
    ]
    for place, path in enumerate(paths):
        type_ = draw(st.sampled_from([str, int, float, bool]))
        try:
            field = Field(
                name=f"f{place}",
                type=type_,
                optional=draw(st.booleans()),
                path=path_text(tuple(path)),
                quoted=type_ in {int, float} and draw(st.booleans()),
            )
            Schema(fields=[*fields, field], key="k", time=EventTime(field="t"))
        except Misdeclared:  # begins with an index, or contradicts another one
            continue
        fields.append(field)
    return Schema(fields=fields, key="k", time=EventTime(field="t"))


INTEGERS = [0, -1, 7, 2**53 + 1, 10**18, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**18)]
FLOATS = [
    0.0,
    -0.0,
    0.1,
    0.30000000000000004,
    5e-324,
    2.2250738585072014e-308,
    1e23,
    1.7976931348623157e308,
    1e-7,
]
TEXTS = [
    "",
    "x",
    "größe",
    "a\\b",
    'q"',
    "\x00\n\t",
    "\U0001f600",
    "/",
    "12.50",
    "0",
    "1e3",
    " 1",
    "nan",
    "true",
    "\x7f\u2028",
]
JUNK: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [1, [2, {"a": None}]],
    {"a": {"b": [1.5, "x"]}},
    {"id": 1, "at": "x"},
]


def random_value(field: Field, seeded: random.Random) -> Any:
    if seeded.random() < 0.12:
        return seeded.choice([*JUNK, *INTEGERS, *FLOATS, *TEXTS])
    value: Any
    if field.type is str:
        value = seeded.choice(TEXTS)
    elif field.type is bool:
        value = seeded.random() < 0.5
    elif field.type is int:
        value = seeded.choice(
            [seeded.randrange(1000), seeded.randrange(-(2**63), 2**63), seeded.choice(INTEGERS)]
        )
    else:
        bits = struct.unpack("d", seeded.randbytes(8))[0]
        value = seeded.choice(
            [
                round(seeded.uniform(0, 500), 2),
                seeded.random(),
                seeded.choice(FLOATS),
                seeded.choice(INTEGERS),
                bits,
            ]
        )
        value = value if math.isfinite(value) else 1.5
    return json.dumps(value) if field.quoted and seeded.random() < 0.5 else value


def random_row(schema: Schema, seeded: random.Random) -> bytes:
    """A row that is often well-formed, as one of several writers would write it."""
    event: dict[str, Any] = {}
    for field in seeded.sample(schema.fields, len(schema.fields)):
        if seeded.random() < (0.7 if field.optional else 0.99):
            put(event, field.json_path, random_value(field, seeded))
    for _ in range(seeded.randrange(3)):
        event.setdefault(
            seeded.choice([*NAMES, "u", "extra"]), seeded.choice([*JUNK, *TEXTS, *FLOATS, *INTEGERS])
        )
    pairs = list(event.items())
    seeded.shuffle(pairs)
    separators = seeded.choice([(",", ":"), (", ", ": "), (" ,\n", "\t: ")])
    return json.dumps(dict(pairs), separators=separators, ensure_ascii=seeded.random() < 0.3).encode()


TOKENS = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"0", b"-", b"-0", b"1E+2", b"e", b".", b"+", b" ", b"\0", b"\n",
    b"\xc3", b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3\xa9", b"null", b"true", b"NaN", b"Infinity", b"1" * 20, b"\\u0061",
    b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b'"a":1,', b'"id":null,', b'"k":"y",', b'"t":1,', b'"card":{},', b'"12"', b"\xef\xbb\xbf", b"\x7f", b"1e999",
]  # fmt: skip


def mutated(row: bytes, seeded: random.Random) -> bytes:
    """Bytes flipped, deleted, repeated, cut off, tokens put in."""
    data = bytearray(row)
    for _ in range(seeded.choice([0, 1, 1, 1, 2, 3])):
        at, end = sorted(seeded.choices(range(len(data) + 1), k=2))
        match seeded.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << seeded.randrange(8)
            case 1:
                del data[at : at + seeded.randrange(1, 4)]
            case 2:
                data[at:at] = data[at:end]
            case 3 if seeded.random() < 0.3:
                del data[at:]
            case _:
                data[at : at + seeded.choice([0, 0, 1, 2])] = seeded.choice(TOKENS)
    return bytes(data)


def corpus(schema: Schema, count: int, seed: int) -> list[bytes]:
    seeded = random.Random(seed)
    return [mutated(random_row(schema, seeded), seeded) for _ in range(count)]


def accepted(found: Sequence[Outcome]) -> float:
    """The share of rows that are well-formed."""
    return float(np.mean([not isinstance(outcome, str) for outcome in found]))

import json
import math
import random
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.codecs.json import Decoded, JsonCodec
from features.schema import EventTime, Field, Schema

SCHEMA = Schema(
    fields=[
        Field(name="id", type=str),
        Field(name="ts", type=int),
        Field(name="amount", type=float, optional=True),
        Field(name="items", type=int, optional=True),
        Field(name="online", type=bool, optional=True),
        Field(name="merchant_category", type=str, optional=True),
    ],
    key="id",
    time=EventTime(field="ts"),
)
ORDINARY = b'{"id":"a","ts":1}'


def items(decoded: Decoded, row: int) -> list[Any] | str:
    """The row as Python values, or the reason why it is malformed."""
    if row in decoded.malformed:
        return decoded.malformed[row].reason
    data = decoded.buffer.tobytes()
    found: list[Any] = []
    for column, field in enumerate(SCHEMA.fields):
        word = int(decoded.words[column, row])
        if not decoded.valid[column, row]:
            found.append(None)
        elif field.type is str:
            found.append(data[word >> 24 : (word >> 24) + (word & 0xFFFFFF)].decode())
        elif field.type is float:
            value = decoded.words[column].view(np.float64)[row]
            found.append((float(value), math.copysign(1, value)))
        else:
            found.append(bool(word) if field.type is bool else word)
    return found


def by_msgspec(row: bytes | None) -> list[Any] | str:
    return items(JsonCodec(SCHEMA, scans=False).decode([row]), 0)


def by_scanner(row: bytes | None) -> list[Any] | str:
    """As one of many rows, in the middle: what stands before and behind must not matter."""
    rows = [ORDINARY] * 16
    rows.insert(5, row)  # type: ignore[arg-type]
    decoded = JsonCodec(SCHEMA).decode(rows)
    assert all(items(decoded, i) == ["a", 1, None, None, None, None] for i in range(len(rows)) if i != 5)
    return items(decoded, 5)


CASES = {
    b'{"id":"x","ts":17,"amount":1.5,"items":-3,"online":true,"merchant_category":"toys"}': [
        "x", 17, (1.5, 1.0), -3, True, "toys",
    ],
    b' { "ts" : 17 ,\n"id"\t:"x" , "unknown":{"a":[1,2,{}]}, "online": false } \r\n': ["x", 17, None, None, False, None],
    b'{"id":"x","ts":1,"amount":7}': ["x", 1, (7.0, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":-0.0}': ["x", 1, (-0.0, -1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":1e-7}': ["x", 1, (1e-7, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":0.30000000000000004}': ["x", 1, (0.30000000000000004, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":null,"items":null}': ["x", 1, None, None, None, None],
    b'{"id":"x","ts":1,"ts":2}': ["x", 2, None, None, None, None],
    b'{"id":"x","ts":1,"amount":2,"amount":null}': ["x", 1, None, None, None, None],
    b'{"id":"\\u00e9\\n\\"","ts":1}': ['é\n"', 1, None, None, None, None],
    '{"id":"größe","ts":1}'.encode(): ["größe", 1, None, None, None, None],
    b'{"id":"","ts":9223372036854775807}': ["", 2**63 - 1, None, None, None, None],
    b'{"id":"","ts":-9223372036854775808}': ["", -(2**63), None, None, None, None],
    b'{"id":"x","ts":9223372036854775808}': "out_of_range",
    b'{"id":"x","ts":1,"amount":1e999}': "out_of_range",
    b'{"id":"x","ts":"1"}': "wrong_type",
    b'{"id":"x","ts":1.5}': "wrong_type",
    b'{"id":7,"ts":1}': "wrong_type",
    b'{"id":"x","ts":1,"online":1}': "wrong_type",
    b'{"id":"x","ts":true}': "wrong_type",
    b"[1]": "wrong_type",
    b"null": "wrong_type",
    b'{"id":"x"}': "missing_field",
    b'{"id":null,"ts":1}': "missing_field",
    b"": "invalid_json",
    b'{"id":"x","ts":1': "invalid_json",
    b'{"id":"x","ts":1}}': "invalid_json",
    b'{"id":"x","ts":1}{"id":"x","ts":1}': "invalid_json",
    b'{"id":"x","ts":01}': "invalid_json",
    b'{"id":"x","ts":1,}': "invalid_json",
    b'{"id":"x" "ts":1}': "invalid_json",
    b'{"id":"x","ts":1,"u":tru}': "invalid_json",
    b'{"id":"x","ts":1,"u":1.}': "invalid_json",
    b'{"id":"x","ts":1,"u":-}': "invalid_json",
    b'{"id":"x\n","ts":1}': "invalid_json",
    b'{"id":"\xff\xfe","ts":1}': "invalid_json",
    b'{"id":"x","ts":1,"amount":NaN}': "invalid_json",
    b'{"id":"x","ts":1,"u":' + b"[" * 5000 + b"]" * 5000 + b"}": "invalid_json",
    None: "tombstone",
    b'{"id":"' + b"x" * 2**24 + b'","ts":1}': "too_large",
}  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), CASES.items(), ids=lambda case: str(case)[:60])
def test_each_case_is_decided_alike_by_both(row: bytes | None, expected: list[Any] | str) -> None:
    assert by_msgspec(row) == expected
    assert by_scanner(row) == expected


def test_a_malformed_row_says_which_field_and_what_was_expected() -> None:
    malformed = JsonCodec(SCHEMA).decode([b'{"id":"x","ts":1,"amount":"ten"}']).malformed[0]
    assert str(malformed) == "wrong_type: Expected `float | null`, got `str` - at `$.amount`"


def random_row(random: random.Random) -> bytes:
    row: dict[str, Any] = {
        "id": "".join(random.choices(string.ascii_letters, k=random.randrange(12))),
        "ts": random.randrange(10**14),
    }
    if random.random() < 0.8:
        row["amount"] = random.choice([1, 2.5, -0.125, 1e-9, 123456789.125, random.random(), -1e22])
    if random.random() < 0.5:
        row["items"] = random.randrange(-(2**63), 2**63)
    if random.random() < 0.5:
        row["online"] = random.random() < 0.5
    if random.random() < 0.3:
        row["extra"] = random.choice([None, "text", 12, 1.5, True, [1], {"deep": {}}, "é", "a\\b"])
    pairs = list(row.items())
    random.shuffle(pairs)
    separators = random.choice([(",", ":"), (", ", ": ")])
    return json.dumps(dict(pairs), separators=separators, ensure_ascii=random.random() < 0.5).encode()


def mutated(row: bytes, random: random.Random) -> bytes:
    data = bytearray(row)
    for _ in range(random.randrange(3)):
        at = random.randrange(len(data) + 1)
        piece = random.choice(
            [
                b'"',
                b"{",
                b"}",
                b",",
                b":",
                b"\\",
                b"0",
                b"-",
                b"e",
                b".",
                b" ",
                b"\0",
                b"\xc3",
                b"null",
                b"1" * 20,
            ]
        )
        data[at : at + random.randrange(3)] = piece
    return bytes(data)


def test_no_mutated_row_is_judged_differently() -> None:
    seeded = random.Random(11)
    rows = [mutated(random_row(seeded), seeded) for _ in range(6000)]
    together = JsonCodec(SCHEMA).decode(rows)
    alone = JsonCodec(SCHEMA)
    for i, row in enumerate(rows):
        assert items(together, i) == items(alone.decode([row]), 0), row


@settings(max_examples=300)
@given(row=st.binary(max_size=60).map(lambda tail: b'{"id":"x","ts":1,' + tail))
def test_no_tail_of_any_bytes_is_judged_differently(row: bytes) -> None:
    assert by_scanner(row) == by_msgspec(row)


def test_nested_paths_are_read_and_named() -> None:
    schema = Schema(
        fields=[
            Field(name="card", type=str, path="card.id"),
            Field(name="ts", type=int),
            Field(name="limit", type=float, path="card.limits.daily", optional=True),
        ],
        key="card",
        time=EventTime(field="ts"),
    )
    codec = JsonCodec(schema)
    rows = [
        b'{"ts":1,"card":{"id":"x","limits":{"daily":5}}}',
        b'{"ts":1,"card":{"id":"y"}}',
    ]
    decoded = codec.decode([*rows, b'{"ts":1}', b'{"ts":1,"card":{"id":3}}'])
    assert decoded.valid[:, 0].tolist() == [1, 1, 1]
    assert decoded.valid[:, 1].tolist() == [1, 1, 0]
    assert decoded.words[2].view(np.float64)[0] == 5
    assert [malformed.detail for malformed in decoded.malformed.values()] == [
        "Object missing required field `card`",
        "Expected `str`, got `int` - at `$.card.id`",
    ]


def test_rows_are_the_same_whatever_order_of_names_came_before() -> None:
    codec = JsonCodec(SCHEMA)
    first = b'{"ts":1,"zzz":1,"id":"x","items":2}'
    second = b'{"items":2,"id":"x","ts":1,"aaa":{"b":1}}'
    for rows in ([first] * 20, [second] * 20, [first, second] * 10):
        decoded = codec.decode(rows)
        assert all(items(decoded, i) == ["x", 1, None, 2, None, None] for i in range(20))

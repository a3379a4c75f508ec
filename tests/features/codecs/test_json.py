import math
from typing import Any

import numpy as np
import pytest

from features.codecs.json import Decoded, JsonCodec
from features.codecs.scanner import Scanner
from features.kernels.scan import PADDING
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
    b'{"id":"x","ts":1,"amount":-0}': ["x", 1, (0.0, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":1E+2}': ["x", 1, (100.0, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":1e308}': ["x", 1, (1e308, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":5e-324}': ["x", 1, (5e-324, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":1e-400}': ["x", 1, (0.0, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":9007199254740993}': ["x", 1, (9007199254740992.0, 1.0), None, None, None],
    b'{"id":"x","ts":1,"amount":123456789012345678901234567890}': ["x", 1, (1.2345678901234568e29, 1.0), None, None, None],
    b'{"id":"x","ts":9007199254740993,"items":-0}': ["x", 2**53 + 1, None, 0, None, None],
    b'{"id":"x","ts":1234567890123456789}': ["x", 1234567890123456789, None, None, None, None],
    b'{"id":"x","ts":1,"u":1e999,"v":"a\\/\\n","w":[{"":[]}]}': ["x", 1, None, None, None, None],
    b'{"":1,"\\u0069d":"x","ts":1}': ["x", 1, None, None, None, None],
    b'{"id":"\\ud83d\\ude00","ts":1}': ["\U0001f600", 1, None, None, None, None],
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
    b'{"id":"x","ts":1.0}': "wrong_type",
    b'{"id":"x","ts":1e3}': "wrong_type",
    b'{"id":"x","ts":1,"online":"true"}': "wrong_type",
    b'{"id":"x","ts":1,"amount":"12.50"}': "wrong_type",
    b'{"id":"x","ts":-9223372036854775809}': "out_of_range",
    b'{"id":"x","ts":1,"amount":1e309}': "out_of_range",
    b'{"id":null,"id":"x","ts":1}': "missing_field",
    b'{"id":1,"id":"x","ts":1}': "wrong_type",
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
    b'{"id":"x","ts":1,"amount":-Infinity}': "invalid_json",
    b'{"id":"x","ts":1,"u":"\xff"}': "invalid_json",
    b'{"id":"x","ts":1,"\xed\xa0\x80":1}': "invalid_json",
    b'{"id":"x","ts":1,"u":"\\ud800"}': "invalid_json",
    b'\xef\xbb\xbf{"id":"x","ts":1}': "invalid_json",
    b'{"id":"x","ts":1}\0': "invalid_json",
    b" \n": "invalid_json",
    b'{"id":"x","ts":1,"u":' + b"[" * 5000 + b"]" * 5000 + b"}": "invalid_json",
    None: "tombstone",
    b'{"id":"' + b"x" * 2**24 + b'","ts":1}': "too_large",
}  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), CASES.items(), ids=lambda case: str(case)[:60])
def test_each_case_is_decided_alike_by_both(row: bytes | None, expected: list[Any] | str) -> None:
    assert by_msgspec(row) == expected
    assert by_scanner(row) == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            b'{"id":"x","ts":1,"amount":"ten"}',
            "wrong_type: Expected `float | null`, got `str` - at `$.amount`",
        ),
        (
            b'{"id":"x","ts":9223372036854775808}',
            "out_of_range: Expected `int` <= 9223372036854775807 - at `$.ts`",
        ),
        (b'{"id":"x","ts":1,"amount":1e309}', "out_of_range: Number out of range - at `$.amount`"),
        (b'{"id":"x","ts":null}', "missing_field: Expected `int`, got `null` - at `$.ts`"),
        (
            b'{"id":"x","ts":1,"amount":NaN}',
            """invalid_json: NaN is no JSON, near '{"id":"x","ts":1,"amount":NaN}'; write null""",
        ),
        (
            b'{"id":"x","ts":1,"amount":-Infinity,"items":3}',
            """invalid_json: -Infinity is no JSON, near '{"id":"x","ts":1,"amount":-Infinity,"items":3}'; write null""",
        ),
        (
            b'{"id":"\\ud800 and more","ts":1}',
            """invalid_json: \\ud800 is half a character, a lone surrogate, near '{"id":"\\\\ud800 and more","ts'""",
        ),
        (
            b'{"id":"\xff","ts":1}',
            """invalid_json: not UTF-8: invalid start byte (byte 7), near '{"id":"\\\\xff","ts":1}'""",
        ),
        (b"\xef\xbb\xbf{}", "invalid_json: it begins with a byte order mark; write UTF-8 without one"),
    ],
)
def test_a_malformed_row_says_where_and_what_was_expected(row: bytes, message: str) -> None:
    assert str(JsonCodec(SCHEMA).decode([row]).malformed[0]) == message


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


QUOTED = Schema(
    fields=[
        Field(name="id", type=str),
        Field(name="ts", type=int, quoted=True),
        Field(name="x", type=float, quoted=True),
    ],
    key="id",
    time=EventTime(field="ts"),
)


@pytest.mark.parametrize(
    ("text", "number"),
    [('"12.50"', 12.5), ("12.50", 12.5), ('"-0.00"', -0.0), ('"-0"', 0.0), ('"1E+3"', 1000.0), ('"0.30000000000000004"', 0.30000000000000004)],
)  # fmt: skip
def test_a_number_may_stand_in_quotes_where_it_is_declared_so(text: str, number: float) -> None:
    row = f'{{"id":"a","ts":"{2**63 - 1}","x":{text}}}'.encode()
    for scans in (False, True):
        decoded = JsonCodec(QUOTED, scans=scans).decode([row])
        assert not decoded.malformed
        assert decoded.words[1, 0] == 2**63 - 1
        read = decoded.words[2].view(np.float64)[0]
        assert (read, np.signbit(read)) == (number, np.signbit(number))


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "+1", "01", ".5", "5.", "1,5", "NaN", "Infinity", "null", "0x1", "1_0", "\u0661"]
)
def test_what_is_no_json_number_is_none_in_quotes_either(text: str) -> None:
    row = f'{{"id":"a","ts":1,"x":"{text}"}}'.encode()
    for scans in (False, True):
        (malformed,) = JsonCodec(QUOTED, scans=scans).decode([row]).malformed.values()
        assert str(malformed) == f"wrong_type: Expected `float`, got {text!r} in quotes - at `$.x`"


def test_a_number_in_quotes_has_its_range() -> None:
    rows = [
        b'{"id":"a","ts":"9223372036854775808","x":1}',
        b'{"id":"a","ts":1,"x":"1e309"}',
        b'{"id":"a","ts":"1.0","x":1}',
    ]
    malformed = JsonCodec(QUOTED).decode(rows).malformed
    assert [str(malformed[row]) for row in range(3)] == [
        "out_of_range: Number out of range, got '9223372036854775808' in quotes - at `$.ts`",
        "out_of_range: Number out of range, got '1e309' in quotes - at `$.x`",
        "wrong_type: Expected `int`, got '1.0' in quotes - at `$.ts`",
    ]


def test_items_of_arrays_are_read_and_named() -> None:
    schema = Schema(
        fields=[
            Field(name="k", type=str, path="who[1].id"),
            Field(name="t", type=int, path="meta.at"),
            Field(name="price", type=float, path="items[0].price", optional=True),
        ],
        key="k",
        time=EventTime(field="t"),
    )
    rows = [
        b'{"meta":{"at":1},"who":[{"id":9},{"id":"x","more":[1]},3],"items":[{"price":2.5,"u":{}},{"price":"x"}]}',
        b'{"meta":{"at":1},"who":[0,{"id":"y"}],"items":[]}',
        b'{"meta":{"at":1},"who":[0,{"id":"y"}],"items":null}',
        b'{"meta":{"at":1},"who":[0,{"id":"y"}],"items":[null]}',
        b'{"meta":{"at":1},"who":[0]}',
        b'{"meta":{"at":1},"who":{"1":{"id":"y"}}}',
        b'{"meta":{"at":1},"who":[0,{"id":"y"}],"items":[{"price":true}]}',
    ]
    for scans in (False, True):
        decoded = JsonCodec(schema, scans=scans).decode(rows)
        assert decoded.valid[:, :4].tolist() == [[1] * 4, [1] * 4, [1, 0, 0, 0]]
        assert decoded.words[2].view(np.float64)[0] == 2.5
        assert [str(decoded.malformed[row]) for row in (4, 5, 6)] == [
            "missing_field: Expected `array` of at least length 2, got 1 - at `$.who`",
            "wrong_type: Expected `array`, got `object` - at `$.who`",
            "wrong_type: Expected `float | null`, got `bool` - at `$.items[0].price`",
        ]


def test_the_scanner_decides_ordinary_rows_itself() -> None:
    """Nested paths, unknown nested values, non-ASCII texts and nineteen digits are ordinary."""
    fields = [
        Field(name="id", type=str, path="card.id"),
        Field(name="ts", type=int, quoted=True),
        Field(name="x", type=float, path="i[1].x"),
    ]
    row = '{"card":{"id":"größe","u":[{"v":"\\n"}]},"ts":"1234567890123456789","u":{"w":1e9},"i":[{},{"x":0.5}]}'.encode()
    words = np.empty((3, 1), np.int64)
    valid, odd = Scanner(fields).scan(np.frombuffer(row + bytes(PADDING), np.uint8), [row], words)
    assert (odd, valid.tolist()) == ([], [[1], [1], [1]])
    assert (words[1, 0], words[2].view(np.float64)[0]) == (1234567890123456789, 0.5)

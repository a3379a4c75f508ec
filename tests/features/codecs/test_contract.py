"""Both decoders of JSON, and `json` beside them, agree on every row."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.codecs.json import JsonCodec
from features.schema import EventTime, Field, Schema
from tests.features.codecs import contract
from tests.features.codecs.test_json import SCHEMA

NESTED = Schema(
    fields=[
        Field(name="k", type=int, path="card.id"),
        Field(name="t", type=int, path="meta.at", quoted=True),
        Field(name="amount", type=float, path="items[0].price", optional=True, quoted=True),
        Field(name="second", type=str, path="items[1].name", optional=True),
        Field(name="dotted", type=float, path='["dotted.name"]', optional=True),
        Field(name="limit", type=float, path="card.limits.daily", optional=True),
        Field(name="a", type=str),
        Field(name="b", type=bool, optional=True),
    ],
    key="k",
    time=EventTime(field="t"),
)


@pytest.mark.parametrize("schema", [SCHEMA, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("seed", range(10))
def test_no_mutated_row_is_judged_differently(schema: Schema, seed: int) -> None:
    found = contract.decided(schema, contract.corpus(schema, 1500, seed))
    assert 0.1 < contract.accepted(found) < 0.9


@settings(max_examples=150, deadline=None)
@given(schema=contract.schemas(), seed=st.integers(0, 2**32))
def test_no_row_of_any_schema_is_decided_differently(schema: Schema, seed: int) -> None:
    contract.decided(schema, contract.corpus(schema, 40, seed))


@settings(max_examples=300, deadline=None)
@given(row=st.binary(max_size=60).map(lambda tail: b'{"id":"x","ts":1,' + tail))
def test_no_tail_of_any_bytes_is_decided_differently(row: bytes) -> None:
    contract.decided(SCHEMA, [row])


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("depth", [60, 62, 63, 64, 100, 127, 128, 129, 1000, 100_000])
def test_nesting_is_bounded_by_the_bytes_alone(opening: bytes, depth: int) -> None:
    steps = opening * (depth - 1)
    closing = bytes({91: 93, 123: 125}[byte] for byte in reversed(steps) if byte in b"[{")
    row = b'{"id":"x","ts":1,"u":' + steps + b"1" + closing + b"}"
    levels = len(closing) + 1
    (found,) = contract.decided(SCHEMA, [row]) if levels < 900 else [_alike(row)]
    assert (found == (b"x", 1, None, None, None, None)) == (levels <= 128)
    if levels > 128:
        assert found == "invalid_json: nested too deeply; at most 128 levels can be read"


def _alike(row: bytes) -> contract.Outcome:
    judged, scanned = (
        contract.outcomes(SCHEMA, JsonCodec(SCHEMA, scans=scans).decode([row])) for scans in (False, True)
    )
    assert judged == scanned
    return judged[0]


def test_brackets_inside_texts_are_no_nesting() -> None:
    row = b'{"id":"x","ts":1,"u":"' + b'[{\\"' * 500 + b'"}'
    assert contract.decided(SCHEMA, [row]) == [(b"x", 1, None, None, None, None)]


def test_a_text_of_sixteen_mebibytes_is_the_largest() -> None:
    room = 2**24 - 1 - len(b'{"id":"","ts":1}')
    for text, is_read in (
        (b"x" * room, True),
        ("é".encode() * (room // 2), True),
        (b"x" * (room + 1), False),
    ):
        found = _alike(b'{"id":"' + text + b'","ts":1}')
        assert (found == (text, 1, None, None, None, None)) == is_read
        if not is_read:
            assert found == "too_large: the record has 16777216 bytes; at most 16777215 can be read"

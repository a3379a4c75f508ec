from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Malformed, Misdeclared
from pipelines.pipeline import DeadLetterRule
from workers.dead_letters import LONGEST_ERROR, DeadLetterGuard, dead_letters
from workers.topics import DEAD_LETTER_HEADROOM
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.slices import Records, Slice

HERE, THERE = Partition("t", 0), Partition("t", 1)


def bad(*rows: int) -> dict[int, Malformed]:
    return {row: Malformed("wrong_type", "no number") for row in rows}


def test_a_few_dead_letters_are_borne() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100, max_run=5), "records")
    for _ in range(50):
        guard.observe(HERE, 10, bad(0, 9))


def test_too_large_a_share_stops_the_worker_and_names_the_reason() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100, max_run=50), "records")
    for _ in range(9):
        guard.observe(HERE, 10, bad(0, 4, 8))
    with pytest.raises(Misdeclared, match=r"30 of the last 100 records are dead letters \(wrong_type: 30\)"):
        guard.observe(HERE, 10, bad(0, 4, 8))


def test_a_share_over_fewer_records_than_the_window_is_not_judged() -> None:
    DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100), "records").observe(HERE, 99, bad(*range(60)))


@given(
    dead=st.lists(st.booleans(), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    window=st.integers(1, 20),
    ratio=st.sampled_from([0.1, 0.25, 0.5, 0.9, 1]),
)
def test_the_share_does_not_depend_on_how_records_are_cut_into_slices(
    dead: list[bool], cuts: list[int], window: int, ratio: float
) -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=ratio, window=window), "records")
    edges = [0, *sorted(cut for cut in cuts if cut < len(dead)), len(dead)]
    pieces = [dead[begin:end] for begin, end in pairwise(edges)]
    too_many = any(sum(dead[end - window : end]) > ratio * window for end in range(window, len(dead) + 1))
    try:
        for piece in pieces:
            guard.observe(HERE, len(piece), bad(*(row for row, is_dead in enumerate(piece) if is_dead)))
    except Misdeclared:
        assert too_many
    else:
        assert not too_many


def test_a_run_is_counted_over_slices_and_by_partition() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=1, max_run=4), "records")
    guard.observe(HERE, 3, bad(1, 2))
    guard.observe(THERE, 2, bad(0, 1))
    guard.observe(HERE, 0, bad())
    with pytest.raises(Misdeclared, match="5 dead letters follow one another in t\\[0\\]"):
        guard.observe(HERE, 5, bad(0, 1, 2, 4))


def test_one_good_record_ends_a_run() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=1, max_run=4), "records")
    for _ in range(10):
        guard.observe(HERE, 5, bad(0, 1, 3, 4))


KAFKAS_DEFAULT = 1_048_588


@pytest.mark.parametrize("largest", [KAFKAS_DEFAULT + DEAD_LETTER_HEADROOM, KAFKAS_DEFAULT, 100_000])
@pytest.mark.parametrize("key", [1, 990_000])
@pytest.mark.parametrize("value", [None, 1, 999_000, 5_000_000])
@pytest.mark.parametrize("headers", [0, 50_000, 990_000])
def test_every_record_has_a_letter_that_a_topic_takes(
    key: int, value: int | None, headers: int, largest: int
) -> None:
    record = message(b"k" * key, None if value is None else b"v" * value, [("h", b"x" * headers)])
    kept_key, kept_value, kept_headers = letter(record, largest)
    assert batch_bytes(kept_key, kept_value, kept_headers) <= largest
    noted = dict(kept_headers).get("headrace.truncated")
    if batch_bytes(record.key(), record.value(), record.headers()) + 5000 <= largest:
        assert (kept_key, kept_value, noted) == (record.key(), record.value(), None)
    if noted is None:
        assert (kept_key, kept_value, kept_headers[0]) == (record.key(), record.value(), record.headers()[0])
    else:
        assert noted == b"key %d, value %d, headers %d bytes" % (key, value or 0, headers + 1)
        assert (
            largest - batch_bytes(kept_key, kept_value, kept_headers) < largest // 10
            or (value or 0) < largest
        )
    assert (kept_value is None) == (value is None)


@pytest.mark.parametrize("headers", [0, 1, 20_000])
def test_the_largest_record_that_a_source_takes_is_whole_in_its_letter(headers: int) -> None:
    some = [(f"h{i}", b"") for i in range(headers)]
    value = b"v" * (KAFKAS_DEFAULT - batch_bytes(b"k", b"v" * 500_000, some) + 500_000)
    record = message(b"k", value, some)
    assert KAFKAS_DEFAULT - 4 < batch_bytes(b"k", value, some) <= KAFKAS_DEFAULT
    kept_key, kept_value, kept_headers = letter(record, KAFKAS_DEFAULT + DEAD_LETTER_HEADROOM)
    assert (kept_key, kept_value, kept_headers[:headers]) == (b"k", value, some)
    assert "headrace.truncated" not in dict(kept_headers)


@pytest.mark.parametrize(
    ("headers", "attempts"),
    [
        ([], b"1"),
        ([("headrace.replayed", b"d:0:1"), ("headrace.attempts", b"1")], b"2"),
        ([("headrace.replayed", b"d:0:1"), ("headrace.attempts", b"41")], b"42"),
        ([("headrace.replayed", b"d:0:1"), ("headrace.attempts", b"many")], b"1"),
        ([("headrace.attempts", b"5")], b"1"),  # of a letter of another pipeline, read as a source
    ],
)
def test_attempts_are_counted_on_where_a_replayed_record_fails_again(
    headers: list[tuple[str, bytes]], attempts: bytes
) -> None:
    _, _, found = letter(message(b"k", b"v", headers), KAFKAS_DEFAULT)
    assert found[: len(headers)] == headers
    assert found[-1] == ("headrace.attempts", attempts)


def message(key: bytes, value: bytes | None, headers: list[tuple[str, bytes]]) -> Any:
    return Message(topic="t", partition=0, offset=0, key=key, value=value, headers=headers)


def letter(record: Any, largest: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Key, value and headers of a record's dead letter."""
    span = Span(partition=HERE, first=0, end=1, records=1, size=1, shares=1)
    slice_ = Slice(Records(HERE, [record], np.array([0])), span, lambda *_: None)
    why = {0: Malformed("wrong_type", "é" * 5000)}
    batch = dead_letters("t.dead-letters", "p", slice_, why, "decode", largest)
    assert batch.keys is not None
    assert batch.headers is not None
    ((key,), (value,), (headers,)) = batch.keys, batch.values, batch.headers
    assert headers is not None
    assert len(dict(headers)["headrace.error"] or b"") == LONGEST_ERROR
    return key, value, list(headers)


def batch_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Of a batch of this one record, by Kafka's own encoding: 61 bytes, then the record with its length."""

    def varint(number: int) -> int:
        zigzag, size = number << 1, 1
        while zigzag >> 7 * size:
            size += 1
        return size

    def text(data: bytes | None) -> int:
        return 1 if data is None else varint(len(data)) + len(data)

    record = 1 + 1 + 1 + text(key) + text(value) + varint(len(headers))
    record += sum(text(name.encode()) + text(content) for name, content in headers)
    return 61 + varint(record) + record

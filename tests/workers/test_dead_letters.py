from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Malformed, Misdeclared
from pipelines.pipeline import DeadLetterRule
from workers.dead_letters import LARGEST_OUTPUT, LONGEST_ERROR, DeadLetterGuard, dead_letters
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


@pytest.mark.parametrize("key", [1, 990_000])
@pytest.mark.parametrize("value", [None, 1, 999_000, 5_000_000])
@pytest.mark.parametrize("headers", [0, 50_000, 990_000])
def test_every_record_has_a_letter_that_a_topic_takes(key: int, value: int | None, headers: int) -> None:
    record: Any = Message(
        topic="t", partition=0, offset=0, key=b"k" * key, value=None if value is None else b"v" * value,
        headers=[("h", b"x" * headers)],
    )  # fmt: skip
    span = Span(partition=HERE, first=0, end=1, records=1, size=1, shares=1)
    slice_ = Slice(Records(HERE, [record], np.array([0])), span, lambda *_: None)
    letter = dead_letters("t.dead-letters", "p", slice_, {0: Malformed("wrong_type", "é" * 5000)}, "decode")
    assert letter.keys is not None
    assert letter.headers is not None
    (kept_key,), (kept_value,), (kept_headers,) = letter.keys, letter.values, letter.headers
    assert kept_headers is not None
    sizes = [len(name) + len(content or b"") for name, content in kept_headers]
    assert len(kept_key or b"") + len(kept_value or b"") + sum(sizes) <= LARGEST_OUTPUT
    noted = dict(kept_headers).get("headrace.truncated")
    if key + (value or 0) + headers + 1 <= LARGEST_OUTPUT - 2 * LONGEST_ERROR:
        assert (kept_key, kept_value, noted) == (record.key(), record.value(), None)
    else:
        assert noted == b"key %d, value %d, headers %d bytes" % (key, value or 0, headers + 1)
    assert (kept_value is None) == (value is None)

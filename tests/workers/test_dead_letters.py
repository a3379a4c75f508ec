import pytest

from features.errors import Malformed, Misdeclared
from pipelines.pipeline import DeadLetterRule
from workers.dead_letters import DeadLetterGuard
from workers.transport.partitions import Partition

HERE, THERE = Partition("t", 0), Partition("t", 1)


def bad(*rows: int) -> dict[int, Malformed]:
    return {row: Malformed("wrong_type", "no number") for row in rows}


def test_a_few_dead_letters_are_borne() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100, max_run=5))
    for _ in range(50):
        guard.observe(HERE, 10, bad(0, 9))


def test_too_large_a_share_stops_the_worker_and_names_the_reason() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100, max_run=50))
    for _ in range(9):
        guard.observe(HERE, 10, bad(0, 4, 8))
    with pytest.raises(Misdeclared, match=r"30 of the last 100 records are dead letters \(wrong_type: 30\)"):
        guard.observe(HERE, 10, bad(0, 4, 8))


def test_a_share_over_fewer_records_than_the_window_is_not_judged() -> None:
    DeadLetterGuard(DeadLetterRule(max_ratio=0.2, window=100)).observe(HERE, 99, bad(*range(60)))


def test_a_run_is_counted_over_slices_and_by_partition() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=1, max_run=4))
    guard.observe(HERE, 3, bad(1, 2))
    guard.observe(THERE, 2, bad(0, 1))
    guard.observe(HERE, 0, bad())
    with pytest.raises(Misdeclared, match="5 dead letters follow one another in t\\[0\\]"):
        guard.observe(HERE, 5, bad(0, 1, 2, 4))


def test_one_good_record_ends_a_run() -> None:
    guard = DeadLetterGuard(DeadLetterRule(max_ratio=1, max_run=4))
    for _ in range(10):
        guard.observe(HERE, 5, bad(0, 1, 3, 4))

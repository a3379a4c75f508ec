from datetime import timedelta

import pytest

from features.errors import Misdeclared, Unavailable
from workers.transport.retries import Attempts, Retries

POLICY = Retries(first=timedelta(seconds=1), longest=timedelta(seconds=8), deadline=timedelta(seconds=20))


def test_waits_double_up_to_the_longest_and_are_spread() -> None:
    attempts = Attempts(POLICY, "a call")
    longest = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    waits = [attempts.failed("why", now=0.0) for _ in longest]
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True))


def test_failures_that_follow_each_other_for_too_long_end_it() -> None:
    attempts = Attempts(POLICY, "a call")
    attempts.failed("first", now=100.0)
    attempts.failed("second", now=119.9)
    with pytest.raises(Unavailable, match=r"a call: failed 3 times in 20 s, last: third"):
        attempts.failed("third", now=120.0)


def test_a_success_begins_anew() -> None:
    attempts = Attempts(POLICY, "a call")
    attempts.failed("first", now=0.0)
    attempts.succeeded()
    assert attempts.failed("second", now=1000.0) <= 1.0


def test_failures_far_apart_do_not_follow_each_other() -> None:
    attempts = Attempts(POLICY, "a call")
    attempts.failed("first", now=0.0)
    assert attempts.failed("second", now=1000.0) <= 1.0


def test_a_policy_that_never_gives_up_in_time_is_refused() -> None:
    with pytest.raises(Misdeclared, match="needed: 0 < first <= longest <= deadline"):
        Retries(first=timedelta(seconds=3), longest=timedelta(seconds=2))

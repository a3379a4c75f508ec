from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from models.microbatch import ROW_MULTIPLE, BatchRule, Leave

SECOND = timedelta(seconds=1)


@given(st.integers(1, 5000))
def test_every_batch_fits_a_bucket_and_less_than_doubles(rows: int) -> None:
    buckets = BatchRule(max_rows=5000).buckets
    bucket = next(size for size in buckets if size >= rows)
    assert bucket < max(2 * rows, ROW_MULTIPLE + 1)


@given(st.integers(2, 5000))
def test_buckets_rise_in_multiples_of_sixteen_to_hold_the_largest_batch(max_rows: int) -> None:
    buckets = BatchRule(max_rows=max_rows).buckets
    assert list(buckets) == sorted(set(buckets))
    assert all(size % ROW_MULTIPLE == 0 for size in buckets)
    assert max_rows <= buckets[-1] < max_rows + ROW_MULTIPLE


def test_a_rule_of_one_row_runs_every_row_alone() -> None:
    assert BatchRule(max_rows=1).buckets == (1,)
    assert BatchRule().buckets == (16, 32, 64, 128, 256, 512, 1024)


def test_a_batch_leaves_a_free_runtime_at_once() -> None:
    rule = BatchRule(max_rows=4)
    assert rule.leaves(0, oldest=0, now=9) is None
    assert rule.leaves(1, oldest=0, now=0) is Leave.IDLE
    assert rule.leaves(4, oldest=0, now=0) is Leave.FULL


def test_a_partial_batch_leaves_when_its_oldest_row_is_due() -> None:
    rule = BatchRule(max_rows=4, max_wait=SECOND)
    assert rule.leaves(3, oldest=5, now=5.99) is None
    assert rule.leaves(3, oldest=5, now=6) is Leave.DUE
    assert rule.leaves(4, oldest=5, now=5) is Leave.FULL


@pytest.mark.parametrize("declared", [{"max_rows": 0}, {"max_wait": -SECOND}])
def test_a_rule_that_never_lets_rows_leave_is_refused(declared: dict[str, int]) -> None:
    with pytest.raises(Misdeclared, match="BatchRule"):
        BatchRule(**declared)  # type: ignore[arg-type]

from collections.abc import Iterator
from contextlib import closing

import pytest

from features.ahead import ahead


def test_items_come_in_order_and_then_what_ended_them() -> None:
    def items() -> Iterator[int]:
        yield from range(50)
        raise ValueError("the end")

    taken = ahead(items(), depth=3)
    assert [next(taken) for _ in range(50)] == list(range(50))
    with pytest.raises(ValueError, match="the end"):
        next(taken)


def test_items_that_nobody_takes_any_more_are_closed() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from range(1_000_000_000)
        finally:
            closed.append(True)

    with closing(ahead(items())) as taken:
        assert next(taken) == 0
    assert closed == [True]

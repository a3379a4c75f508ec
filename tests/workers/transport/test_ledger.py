"""When the poller reads on."""

from typing import Any

import numpy as np
import pytest

from workers.transport.ledger import Ledger
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.settings import Limits
from workers.transport.slices import Records
from workers.transport.stats import TransportStats

PARTITION = Partition("t", 0)


class Message(bytes):
    """As much of a Kafka message as the ledger looks at: its length."""


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(Limits(), lambda: 0.0, TransportStats())
    ledger.assign([(PARTITION, 0)])
    return ledger


def add(ledger: Ledger, count: int) -> Span:
    first = ledger.position(PARTITION) or 0
    messages: list[Any] = [Message(b"x")] * count
    span = ledger.add(Records(PARTITION, messages, np.arange(first, first + count)), shares=1)
    assert span is not None
    ledger.open([span])
    return span


def test_while_a_small_slice_waits_the_next_one_grows_at_the_broker(ledger: Ledger) -> None:
    assert ledger.has_appetite()
    span = add(ledger, 3)
    assert not ledger.has_appetite()
    ledger.begin(span)
    assert ledger.has_appetite()


def test_full_slices_wait_a_few_at_a_time_so_that_no_agent_runs_dry(ledger: Ledger) -> None:
    spans = [add(ledger, 1000) for _ in range(2)]
    assert ledger.has_appetite()
    spans.append(add(ledger, 1000))
    assert not ledger.has_appetite()
    ledger.finish(spans[0], [])
    assert ledger.has_appetite()


def test_what_has_left_waits_for_nobody(ledger: Ledger) -> None:
    add(ledger, 3)
    ledger.release([PARTITION])
    assert ledger.has_appetite()

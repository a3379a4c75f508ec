"""No offset is committed before its output is durable, whenever the client tells."""

from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Unavailable
from workers.transport.at_least_once import AtLeastOnce
from workers.transport.delivery import Delivery
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Partition
from workers.transport.settings import TransportSettings
from workers.transport.shared import Shared
from workers.transport.slices import Records
from workers.transport.stats import TransportStats

PARTITION = Partition("t", 0)


class Client:
    """What the mode sees of a producer whose records become durable one after another, when asked to go on."""

    def __init__(self) -> None:
        self.queue: list[bytes | None] = []
        self.durable: set[int] = set()
        self.failures: list[Any] = []
        self.delivers = 0
        self.refuses = False

    def start(self) -> None:
        """Nothing to do."""

    @property
    def outstanding(self) -> int:
        return len(self.queue)

    def write(self, batch: OutputBatch) -> None:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.queue += batch.values

    def poll(self, seconds: float) -> None:
        del seconds
        self.durable |= {int(value) for value in self.queue[: self.delivers] if value}
        del self.queue[: self.delivers]


class Path:
    """A slice's way from its agent through the delivery thread."""

    def __init__(self) -> None:
        clock, self.client, self.failures = iter(range(10**6)), Client(), list[BaseException]()
        settings = TransportSettings(bootstrap="b:1", group="g")
        shared = Shared(settings, lambda: next(clock) / 100, TransportStats())
        mode = AtLeastOnce(shared, self.client)  # type: ignore[arg-type]  # as much of a writer as it uses
        self.delivery, self.ledger = Delivery(shared, mode, self.failures.append), shared.ledger
        self.ledger.assign([(PARTITION, 0)])
        self.ledger.annotate(PARTITION, "")

    def finish(self, count: int) -> None:
        first = self.ledger.position(PARTITION) or 0
        offsets = np.arange(first, first + count)
        values = [b"%d" % offset for offset in offsets]
        messages: list[Any] = list(values)
        span = self.ledger.add(Records(PARTITION, messages, offsets), shares=1)
        assert span is not None
        self.ledger.open([span])
        self.ledger.finish(span, [OutputBatch(topic="out", values=values)])


@given(steps=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), max_size=30))
def test_offsets_follow_durable_outputs(steps: list[tuple[int, int]]) -> None:
    path = Path()
    for count, path.client.delivers in steps:
        path.finish(count)
        path.delivery._step()
        for commit in path.ledger.durable_commits():
            assert set(range(commit.offset)) <= path.client.durable


@pytest.mark.parametrize("before", [0, 3])
def test_an_output_that_the_client_refuses_is_not_passed(before: int) -> None:
    path = Path()
    path.client.delivers = 10
    if before:
        path.finish(before)
        path.delivery._step()
    path.client.refuses = True
    path.finish(1)
    with pytest.raises(Unavailable, match="can't be produced"):
        path.delivery._step()
    assert all(commit.offset <= before for commit in path.ledger.durable_commits())

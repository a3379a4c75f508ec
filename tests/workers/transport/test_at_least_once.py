"""No offset is committed before its output is durable, whenever the client tells."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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

    def start(self) -> None:
        """Nothing to do."""

    @property
    def outstanding(self) -> int:
        return len(self.queue)

    def write(self, batch: OutputBatch) -> None:
        self.queue += batch.values

    def poll(self, seconds: float) -> None:
        del seconds
        self.durable |= {int(value) for value in self.queue[: self.delivers] if value}
        del self.queue[: self.delivers]


@given(steps=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), max_size=30))
def test_offsets_follow_durable_outputs(steps: list[tuple[int, int]]) -> None:
    clock, client = iter(range(10**6)), Client()
    shared = Shared(
        TransportSettings(bootstrap="b:1", group="g"), lambda: next(clock) / 100, TransportStats()
    )
    mode = AtLeastOnce(shared, client)  # type: ignore[arg-type]  # as much of a writer as it uses
    delivery, ledger, first = Delivery(shared, mode, print), shared.ledger, 0
    ledger.assign([(PARTITION, 0)])
    ledger.annotate(PARTITION, "")
    for count, delivers in steps:
        offsets = np.arange(first, first := first + count)
        values = [b"%d" % offset for offset in offsets]
        messages: list[Any] = list(values)
        span = ledger.add(Records(PARTITION, messages, offsets), shares=1)
        assert span is not None
        ledger.open([span])
        ledger.finish(span, [OutputBatch(topic="out", values=values)])
        client.delivers = delivers
        delivery._step()
        for commit in ledger.durable_commits():
            assert set(range(commit.offset)) <= client.durable

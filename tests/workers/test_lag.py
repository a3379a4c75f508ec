import time

import pytest

from tests.workers.topics_seen import produce, wait_for
from workers.brokers import KafkaBroker
from workers.lag import LogEnds
from workers.topics import Topics, TopicSpec
from workers.transport.partitions import Partition

HERE, THERE = Partition("lagging", 0), Partition("lagging", 1)


@pytest.mark.kafka
def test_lag_is_unknown_while_the_brokers_are_silent_and_known_again_after_an_election() -> None:
    with KafkaBroker() as broker:
        clients = {"bootstrap.servers": broker.bootstrap}
        Topics(clients).create((TopicSpec(name="lagging", role="source", partitions=2, config={}),))
        produce(broker.bootstrap, "lagging", *[(b"k", b"v")] * 7)
        ends = LogEnds(clients)

        def lags() -> list[int | None]:
            ends.refresh([HERE, THERE])
            return [ends.lag(HERE, 0), ends.lag(THERE, 0)]

        def is_known(known: list[int | None]) -> bool:
            return None not in known and sum(each or 0 for each in known) == 7

        wait_for(lambda: is_known(lags()), "the lag")
        broker.pause()
        began = time.monotonic()
        while time.monotonic() - began < 10:  # past the broker's session: its leaders are elected anew
            assert None in lags()
        broker.resume()
        wait_for(lambda: all(is_known(lags()) for _ in range(9)), "the lag to be known again")

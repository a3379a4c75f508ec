import time

import numpy as np
import pyarrow as pa
import pytest

from features.errors import Misdeclared, Unavailable
from pipelines.example import RECORDS
from tests.workers.topics_seen import read_all
from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.publisher import FlatOut, Publisher, Rate, Speedup
from workers.topics import Topics, TopicSpec

TIMES = np.array([0, 1000, 1000, 8000])


def test_flat_out_everything_is_due() -> None:
    assert FlatOut().due_at(9, TIMES).tolist() == [0, 0, 0, 0]


def test_at_a_rate_events_are_spread_evenly() -> None:
    assert Rate(10).due_at(0, TIMES).tolist() == [0, 0.1, 0.2, 0.3]
    assert Rate(10).due_at(4, TIMES).tolist() == [0.4, 0.5, 0.6, 0.7]


def test_sped_up_events_come_as_they_happened() -> None:
    assert Speedup(2).due_at(9, TIMES).tolist() == [0, 0.5, 0.5, 4]


@pytest.mark.parametrize("pace", [Rate, Speedup])
def test_a_pace_that_stands_still_is_refused(pace: type[Rate] | type[Speedup]) -> None:
    with pytest.raises(Misdeclared, match="has to be positive"):
        pace(0)


def test_records_arrive_in_order_on_the_partition_of_their_key(broker: EmbeddedBroker | KafkaBroker) -> None:
    topic, clients = f"published-{time.time_ns()}", {"bootstrap.servers": broker.bootstrap}
    Topics(clients).create((TopicSpec(name=topic, role="source", partitions=3, config={}),))
    n = 20_000
    records = pa.table(
        {
            "key": [b"k%d" % (i % 7) for i in range(n)],
            "value": [b"%d" % i for i in range(n)],
            "time": range(n),
        },
        schema=RECORDS,
    )
    told: list[int] = []
    Publisher(clients, topic).publish([records.slice(0, n - 5), records.slice(n - 5)], FlatOut(), told.append)
    assert sum(told) == n
    seen = read_all(broker.bootstrap, topic, 3)
    assert sorted(int(message.value()) for message in seen) == list(range(n))
    places: dict[bytes, set[int]] = {}
    last: dict[int, int] = {}
    for message in seen:
        places.setdefault(message.key(), set()).add(message.partition())
        assert int(message.value()) > last.get(message.partition(), -1)
        last[message.partition()] = int(message.value())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert places[b"k0"] == {murmur2(b"k0") % 3}


def murmur2(key: bytes) -> int:
    """Kafka's own, from the Java client's documentation of its partitioner."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = key[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_topic_that_is_not_there_is_named(embedded_broker: EmbeddedBroker) -> None:
    clients = {
        "bootstrap.servers": embedded_broker.bootstrap,
        "message.timeout.ms": "1500",
        "allow.auto.create.topics": "false",
    }
    records = pa.table({"key": [b"k"], "value": [b"v"], "time": [0]}, schema=RECORDS)
    with pytest.raises(Unavailable, match="'nowhere-to-be-seen'"):
        Publisher(clients, "nowhere-to-be-seen").publish([records], FlatOut())

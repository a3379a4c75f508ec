import struct

import pytest
from confluent_kafka import Consumer

from tests.workers.transport.cluster import Cluster, eventually
from workers.brokers import EmbeddedBroker
from workers.transport.exactly_once import generation


def test_the_generation_is_read_from_what_the_client_writes(embedded_broker: EmbeddedBroker) -> None:
    cluster = Cluster(embedded_broker.bootstrap, session_ms=2_000)
    client = {"bootstrap.servers": cluster.bootstrap, "group.id": "generations", **cluster.session}
    consumer = Consumer(client)
    assert generation(consumer.consumer_group_metadata()) == -1
    consumer.subscribe([cluster.topic()])

    def has_joined() -> bool:
        consumer.poll(0.1)
        return generation(consumer.consumer_group_metadata()) >= 0

    eventually(has_joined, what="a generation")
    consumer.close()


@pytest.mark.parametrize("bytes_", [b"", b"CGMDv3:" + struct.pack("=i", 4), b"CGMDv2:\x00"])
def test_metadata_of_another_form_is_refused(bytes_: bytes) -> None:
    with pytest.raises(RuntimeError, match="unknown group metadata"):
        generation(bytes_)

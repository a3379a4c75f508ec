"""What a consumer outside sees of a topic."""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PATIENCE = 60.0


def read_all(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[Message]:
    """Every record that is there now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "outside", "isolation.level": isolation, "enable.partition.eof": True,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ended: set[int] = set()
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(ended) < partitions and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == partitions
    return found


def wait_for(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience} s for {what}"
        time.sleep(0.2)


def produce(
    bootstrap: str,
    topic: str,
    *records: tuple[bytes | None, bytes | None],
    headers: list[tuple[str, bytes]] | None = None,
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 1})
    for key, value in records:
        producer.produce(topic, value, key, headers=headers or [])
    assert producer.flush(30) == 0

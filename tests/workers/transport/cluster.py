"""A broker's topics and groups, as the tests fill and read them."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE = 40.0


def eventually(condition: Callable[[], object], *, within: float = PATIENCE, what: str = "") -> None:
    """Look until it is so; fail when it is not in time."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {what or condition}"
        time.sleep(0.05)


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None


class Cluster:
    """What a test does with a broker."""

    def __init__(self, bootstrap: str, *, session_ms: int) -> None:
        self.bootstrap = bootstrap
        self.session = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 500}
        self._client = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}
        self._admin = AdminClient(self._client)
        self._members: dict[str, Consumer] = {}

    def topic(self, partitions: int = 3, config: Mapping[str, str] | None = None) -> str:
        """A new topic."""
        name = f"t-{uuid4().hex[:12]}"
        made = self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])
        made[name].result(PATIENCE)
        return name

    def fill(
        self, topic: str, values: Sequence[bytes], *, partitions: int = 3, transactional: bool = False,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:  # fmt: skip
        """Write the values round robin over the partitions, keyed by themselves."""
        settings = {**self._client, "linger.ms": 5, "enable.idempotence": True}
        if transactional:
            settings["transactional.id"] = f"fill-{uuid4().hex}"
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(PATIENCE)
            producer.begin_transaction()
        for index, value in enumerate(values):
            producer.produce(topic, value, value, index % partitions, headers=headers)
            if index % 1000 == 0:
                producer.poll(0)
        if transactional:
            producer.commit_transaction(PATIENCE)
        assert producer.flush(PATIENCE) == 0

    def read(self, topic: str, partitions: int = 3, isolation: str = "read_committed") -> list[list[Record]]:
        """Everything in a topic, per partition."""
        consumer = Consumer({
            **self._client, "group.id": f"read-{uuid4().hex}", "isolation.level": isolation,
            "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        })  # fmt: skip
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[list[Record]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE
        while len(ended) < partitions and time.monotonic() < deadline:
            for message in consumer.consume(5000, 0.1):
                if message.error() is None:
                    found[message.partition()].append(
                        Record(message.offset(), message.key(), message.value(), message.headers())
                    )
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()
        assert len(ended) == partitions, f"{topic} could not be read to its end"
        return found

    def values(self, topic: str, partitions: int = 3) -> list[list[bytes | None]]:
        """The values in a topic that a reader of committed records sees, per partition."""
        return [[record.value for record in records] for records in self.read(topic, partitions)]

    def committed(self, group: str, topic: str, partitions: int = 3) -> list[tuple[int, str]]:
        """The group's offset and note per partition; -1 where there is none.

        Asked through a consumer: librdkafka 2.16 crashes when an admin client asks a coordinator that is not ready.
        """
        if group not in self._members:
            self._members[group] = Consumer(
                {**self._client, "group.id": group, "isolation.level": "read_uncommitted"}
            )
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        try:
            answers = self._members[group].committed(parts, PATIENCE)
        except KafkaException:
            return [(-1, "")] * partitions
        return [(max(each.offset, -1), each.metadata or "") for each in answers]

    def delete_before(self, topic: str, number: int, offset: int) -> None:
        """As retention would."""
        (deleted,) = self._admin.delete_records([TopicPartition(topic, number, offset)]).values()
        deleted.result(PATIENCE)

    def ends(self, topic: str, partitions: int = 3, isolation: str = "read_committed") -> list[int]:
        """The offset after the last stable record of each partition; with "read_uncommitted" after the last one."""
        consumer = Consumer({**self._client, "group.id": f"ends-{uuid4().hex}", "isolation.level": isolation})
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, n), PATIENCE)[1] for n in range(partitions)
        ]
        consumer.close()
        return ends

    def offsets(self, group: str, topic: str, partitions: int = 3) -> list[int]:
        """The group's offset per partition; -1 where there is none."""
        return [offset for offset, _ in self.committed(group, topic, partitions)]

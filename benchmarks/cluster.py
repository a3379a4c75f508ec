"""The broker's topics, as the benchmark fills, empties and watches them."""

from collections.abc import Mapping, Sequence

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.contender import SINKS
from pipelines.card_fraud import pipeline
from workers.topics import Topics, TopicSpec, topic_specs

_PATIENCE = 30.0
_SEGMENT_BYTES = 32 << 20

Ends = tuple[int, ...]
"""By partition, the offset after the newest record that a reader of committed records can see."""


class Cluster:
    """One Kafka.

    Args:
        bootstrap: Its address.
    """

    def __init__(self, bootstrap: str) -> None:
        self.clients: Mapping[str, str] = {"bootstrap.servers": bootstrap}
        self._topics = Topics(self.clients)
        self._admin = AdminClient(dict(self.clients))

    @property
    def bootstrap(self) -> str:
        """Its address."""
        return self.clients["bootstrap.servers"]

    def create(self) -> None:
        """The pipeline's topics, and a sink for each other contender; small segments, so that emptying frees space."""
        named = {spec.name: spec for spec in topic_specs(pipeline)}
        like = named[pipeline.predictions]
        for name in SINKS:
            named.setdefault(
                name, TopicSpec(name=name, role=like.role, partitions=like.partitions, config=like.config)
            )
        self._topics.create(
            tuple(
                TopicSpec(
                    name=spec.name,
                    role=spec.role,
                    partitions=spec.partitions,
                    config={**spec.config, "segment.bytes": str(_SEGMENT_BYTES)},
                )
                for spec in named.values()
            )
        )

    def empty(self, topics: Sequence[str]) -> None:
        """Delete all records: a new group then starts at the next one."""
        ends = {name: self._ask(name, IsolationLevel.READ_UNCOMMITTED) for name in topics}
        wanted = [
            TopicPartition(name, number, end) for name in topics for number, end in enumerate(ends[name])
        ]
        for future in self._admin.delete_records(wanted).values():
            future.result(_PATIENCE)

    def ends(self, topic: str) -> Ends:
        """How far each partition can be read by a reader of committed records."""
        return self._ask(topic, IsolationLevel.READ_COMMITTED)

    def _ask(self, topic: str, isolation: IsolationLevel) -> Ends:
        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest() for number in range(pipeline.source.partitions)
        }
        futures = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=_PATIENCE)
        found = {where.partition: future.result(_PATIENCE).offset for where, future in futures.items()}
        return tuple(found[number] for number in sorted(found))

"""How far behind: the log's stable end against the committed offset; what is unknown is not zero."""

from collections.abc import Iterable, Mapping

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from workers.clients import make_admin
from workers.transport.partitions import Partition

_PATIENCE = 5.0


class LogEnds:
    """Asks the brokers for the offset after the newest stable record of each partition.

    Args:
        clients: librdkafka settings, as every client gets them.
    """

    def __init__(self, clients: Mapping[str, str]) -> None:
        self._clients = clients
        self._admin = make_admin(clients)
        self._ends: dict[Partition, int] = {}

    def refresh(self, partitions: Iterable[Partition]) -> None:
        """Ask; blocks. What is not answered becomes unknown."""
        wanted = {TopicPartition(*partition): OffsetSpec.latest() for partition in partitions}
        self._ends = self._ask(wanted) if wanted else {}
        if len(self._ends) < len(wanted):
            # librdkafka's admin client keeps the leader epoch that it learned first, and is refused from then on when
            # a leader was elected anew.
            self._admin = make_admin(self._clients)

    def _ask(self, wanted: dict[TopicPartition, OffsetSpec]) -> dict[Partition, int]:
        futures = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_PATIENCE
        )
        ends: dict[Partition, int] = {}
        for where, future in futures.items():
            try:
                offset = future.result(_PATIENCE).offset
            except (KafkaException, TimeoutError):  # unknown until it answers
                continue
            if offset >= 0:
                ends[Partition(where.topic, where.partition)] = offset
        return ends

    def lag(self, partition: Partition, committed: int) -> int | None:
        """Offsets between the committed one and the end, or ``None`` while unknown."""
        end = self._ends.get(partition)
        return None if end is None else max(0, end - committed)

"""The producer: writes output batches, and knows whether all of them are durable.

The only file that produces.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError, TopicPartition

from workers.transport.clients import make_client
from workers.transport.faults import is_purged
from workers.transport.native.producer import ColumnProducer
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Commit
from workers.transport.settings import KafkaValue
from workers.transport.shared import Shared

_FULL_SECONDS = 0.01
_MOST_FAILURES = 100


class Writer:
    """One librdkafka producer, for one thread.

    Args:
        shared: Where outputs are counted.
        settings: What the client is made with.
        callbacks: The client's ``error_cb`` and ``stats_cb``.

    Attributes:
        failures: Deliveries that failed for good, the first hundred: why, and where to.
    """

    def __init__(
        self, shared: Shared, settings: Mapping[str, KafkaValue], callbacks: Mapping[str, object]
    ) -> None:
        self._stats = shared.stats
        self._clock = shared.clock
        self._settings = settings
        self._callbacks = callbacks
        self._producer: ColumnProducer = None  # type: ignore[assignment]
        self.failures: list[tuple[KafkaError, str]] = []

    def start(self) -> None:
        """Make the client.

        Raises:
            Misdeclared: It refuses its settings.
        """
        settings = {**self._settings, **self._callbacks, "on_delivery": self._undelivered}
        self._producer = make_client(ColumnProducer, settings, self._clock)

    @property
    def outstanding(self) -> int:
        """How many records are not known to be durable or failed; zero says that all are."""
        return len(self._producer)

    def poll(self, seconds: float) -> None:
        """Learn what has become of earlier records; returns early when something has."""
        self._producer.poll(seconds)

    def write(self, batch: OutputBatch) -> None:
        """Hand a batch over for sending; waits while the client's queue is full.

        Raises:
            KafkaException: The client refuses a record for good, or its transaction has to be aborted.
        """
        start = 0
        while start < len(batch) and not self.failures:
            start = self._producer.produce(batch, start)
            if start < len(batch):
                self._producer.poll(_FULL_SECONDS)
        self._stats.outputs += len(batch)

    def _undelivered(self, error: KafkaError, topic: str, partition: int) -> None:
        if len(self.failures) < _MOST_FAILURES and not is_purged(error):
            self.failures.append((error, f"{topic}[{partition}]"))

    # -- transactions; each raises KafkaException and, when that is retriable, may be called again ------------------

    def init_transactions(self, timeout: float) -> None:
        """Take over the transactional id; what an earlier owner left open is aborted."""
        self._producer.init_transactions(timeout)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send_offsets(self, commits: list[Commit], group: bytes, timeout: float) -> None:
        """Add source offsets to the transaction, in the name of this member of the group (KIP-447)."""
        self._producer.send_offsets_to_transaction(commits, group, timeout)

    def commit(self, timeout: float) -> None:
        """Make outputs and offsets visible together."""
        self._producer.commit_transaction(timeout)

    def abort(self, timeout: float) -> None:
        """Make neither visible, ever."""
        self._producer.abort_transaction(timeout)


def topic_partitions(commits: list[Commit]) -> list[TopicPartition]:
    """Commits as the client wants them."""
    return [TopicPartition(*commit.partition, commit.offset, metadata=commit.note) for commit in commits]

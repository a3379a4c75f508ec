"""The producer: writes output batches, and knows whether all of them are durable.

The only file that produces; a writer over raw librdkafka would offer the same methods.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice, repeat
from operator import length_hint

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from workers.transport.clients import make_client
from workers.transport.faults import is_purged
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
        self._producer: Producer = None
        self.failures: list[tuple[KafkaError, str]] = []

    def start(self) -> None:
        """Make the client.

        Raises:
            Misdeclared: It refuses its settings.
        """
        settings = {**self._settings, **self._callbacks, "on_delivery": self._undelivered}
        self._producer = make_client(Producer, settings, self._clock)

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
            start = self._write_from(batch, start)
            if start < len(batch):
                self._producer.poll(_FULL_SECONDS)
        self._stats.outputs += len(batch)

    def _write_from(self, batch: OutputBatch, start: int) -> int:
        """Returns the index of the first record for which there was no room."""
        values = iter(list(islice(batch.values, start, None)))
        keys = repeat(None) if batch.keys is None else islice(batch.keys, start, None)
        headers = repeat(None) if batch.headers is None else islice(batch.headers, start, None)
        tail = (repeat(batch.partition), repeat(None), repeat(None), repeat(0), headers)
        # A call a record, driven from C: faster than produce_batch, which wants a dict a record and knows no headers.
        calls = map(self._producer.produce, repeat(batch.topic), values, keys, *tail)
        try:
            deque(calls, maxlen=0)
        except BufferError:
            return len(batch) - length_hint(values) - 1
        return len(batch)

    def _undelivered(self, error: KafkaError, message: Message) -> None:
        if len(self.failures) < _MOST_FAILURES and not is_purged(error):
            self.failures.append((error, f"{message.topic()}[{message.partition()}]"))

    # -- transactions; each raises KafkaException and, when that is retriable, may be called again ------------------

    def init_transactions(self, timeout: float) -> None:
        """Take over the transactional id; what an earlier owner left open is aborted."""
        self._producer.init_transactions(timeout)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def send_offsets(self, commits: list[Commit], group: bytes, timeout: float) -> None:
        """Add source offsets to the transaction, in the name of this member of the group (KIP-447)."""
        self._producer.send_offsets_to_transaction(topic_partitions(commits), group, timeout)

    def commit(self, timeout: float) -> None:
        """Make outputs and offsets visible together."""
        self._producer.commit_transaction(timeout)

    def abort(self, timeout: float) -> None:
        """Make neither visible, ever."""
        self._producer.abort_transaction(timeout)


def topic_partitions(commits: list[Commit]) -> list[TopicPartition]:
    """Commits as the client wants them."""
    return [TopicPartition(*commit.partition, commit.offset, metadata=commit.note) for commit in commits]

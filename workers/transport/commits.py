"""What the poller does about offsets, as the consumer may only be used by its own thread.

From confluent-kafka 2.16 on every call of another thread waits until the running one has returned: a commit from
the delivery thread would wait for each poll, and for ever inside a rebalance callback or ``close()``.
"""

import logging
from collections.abc import Collection
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from features.errors import Unavailable
from workers.transport.faults import is_rejoining, is_transient
from workers.transport.partitions import Commit, Partition
from workers.transport.retries import Attempts
from workers.transport.shared import Shared
from workers.transport.writer import topic_partitions

_log = logging.getLogger(__name__)


class Commits(Protocol):
    """One guarantee, as the poller uses it; called on the poller's thread only."""

    def start(self, consumer: Consumer) -> None:
        """This is the consumer."""
        ...

    def tick(self, now: float) -> None:
        """Called often."""
        ...

    def on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """The client's answer to an asynchronous commit."""
        ...

    def rebalanced(self) -> None:
        """The group has a new generation; partitions may have come, none has left yet."""
        ...

    def finish(self, partitions: Collection[Partition]) -> None:
        """These partitions are drained and about to leave."""
        ...


class ConsumerCommits:
    """At least once: what is durable is committed by the consumer, without waiting for the answer.

    Args:
        shared: The ledger knows what is durable, and learns what is committed.
    """

    def __init__(self, shared: Shared) -> None:
        settings = shared.settings
        self._interval = settings.commit_interval.total_seconds()
        self._attempts = Attempts(settings.retries, f"commits of group {settings.group}")
        self._ledger = shared.ledger
        self._stats = shared.stats
        self._clock = shared.clock
        self._consumer: Consumer = None
        self._due_at = 0.0
        self._sent: list[Commit] = []

    def start(self, consumer: Consumer) -> None:
        """Commit through this consumer."""
        self._consumer = consumer

    def tick(self, now: float) -> None:
        """Send a commit when one is due and none is on its way."""
        if self._sent or now < self._due_at:
            return
        commits = self._ledger.durable_commits()
        if not commits:
            return
        self._due_at = now + self._interval
        self._sent = commits
        try:
            self._consumer.commit(offsets=topic_partitions(commits), asynchronous=True)
        except KafkaException as refused:
            self.on_commit(refused.args[0], [])

    def on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Take note, or try again later.

        Raises:
            Unavailable: It failed for good, or for too long.
        """
        sent, self._sent = self._sent, []
        failed = error or next((each.error for each in offsets if each.error is not None), None)
        now = self._clock()
        if failed is None:
            self._attempts.succeeded()
            self._stats.answered_at = now
            self._ledger.commit(sent)
        elif is_rejoining(failed) or is_transient(failed):
            self._stats.commit_failures += 1
            self._due_at = now + self._attempts.failed(str(failed), now)
        else:
            raise Unavailable(f"offsets can't be committed: {failed}")

    def rebalanced(self) -> None:
        """Nothing to do."""

    def finish(self, partitions: Collection[Partition]) -> None:
        """Commit what is durable, and wait for the answer; a failure only means that records come again."""
        commits = [commit for commit in self._ledger.durable_commits() if commit.partition in partitions]
        if not commits:
            return
        try:
            answers = self._consumer.commit(offsets=topic_partitions(commits), asynchronous=False)
        except KafkaException as refused:
            _log.warning("the last commit of %d partitions failed: %s", len(commits), refused.args[0])
            self._stats.commit_failures += 1
            return
        failed = {(each.topic, each.partition) for each in answers if each.error is not None}
        self._ledger.commit([commit for commit in commits if commit.partition not in failed])


class TransactionCommits:
    """Exactly once: transactions carry the offsets; the poller keeps the group metadata for them fresh.

    It is read only where no partition can have left unnoticed: a generation newer than what the ledger knows of
    would let this worker commit for partitions that another one owns.
    """

    def __init__(self, shared: Shared) -> None:
        self._ledger = shared.ledger
        self._consumer: Consumer = None

    def start(self, consumer: Consumer) -> None:
        """Ask this consumer."""
        self._consumer = consumer

    def tick(self, now: float) -> None:
        """Nothing to do."""

    def on_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """No such commit is ever sent."""

    def rebalanced(self) -> None:
        """Look the metadata up."""
        self._ledger.group = self._consumer.consumer_group_metadata()
        self._ledger.wake()

    def finish(self, partitions: Collection[Partition]) -> None:
        """Nothing to do: the drain has committed."""

"""Exactly once: outputs and source offsets in one Kafka transaction, several slices in each.

The offsets go with the group's metadata (KIP-447): a broker refuses them when this member's generation is past.
Outputs live with their slices, so after an abort the next transaction simply produces them again.
"""

import logging
import struct
from collections.abc import Callable, Collection

from confluent_kafka import KafkaError, KafkaException

from features.errors import Unavailable
from workers.transport.faults import is_hopeless, is_rejoining
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.retries import Attempts
from workers.transport.shared import Shared
from workers.transport.writer import Writer

_log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0  # one try of one call; retriable ones are called again until the deadline of the retries
_METADATA = b"CGMDv2:"  # librdkafka's serialised group metadata: this, then the generation as a native int32


class ExactlyOnce:
    """The delivery mode in which a reader of committed records sees each output once.

    Args:
        shared: The commit interval is the age at which a transaction is committed; ``ledger.group`` holds the
            group metadata.
        writer: A transactional producer.
        refresh: Asks the poller to look the group metadata up again.
    """

    def __init__(self, shared: Shared, writer: Writer, refresh: Callable[[], None]) -> None:
        self._interval = shared.settings.commit_interval.total_seconds()
        self._retries = shared.settings.retries
        self._ledger = shared.ledger
        self._stats = shared.stats
        self._clock = shared.clock
        self._writer = writer
        self._refresh = refresh
        self._attempts = Attempts(self._retries, f"transactions of {shared.settings.transactional_id}")
        self._began_at: float | None = None
        self._resume_at = 0.0

    def start(self) -> None:
        """Make the producer and take over the transactional id."""
        self._writer.start()
        self._persist("init_transactions", lambda: self._writer.init_transactions(_CALL_SECONDS))

    def takes_more(self, now: float) -> bool:
        """False for a moment after an abort."""
        return now >= self._resume_at

    @property
    def is_pending(self) -> bool:
        """True while a transaction is open."""
        return self._began_at is not None

    def pause(self, now: float) -> float | None:
        """Until the open transaction is due, or the moment after an abort is over."""
        if self._began_at is not None:
            return max(0.0, self._began_at + self._interval - now)
        return self._resume_at - now if now < self._resume_at else None

    def produce(self, spans: list[Span], now: float) -> None:
        """Produce within the open transaction, or within a new one."""
        try:
            if self._began_at is None:
                self._writer.begin()
                self._began_at = now
                self._stats.transactions += 1
            for span in spans:
                for batch in span.outputs:
                    self._writer.write(batch)
        except KafkaException as error:
            self._abort(error.args[0], now)

    def advance(self, now: float, *, hurry: bool) -> None:
        """Commit the open transaction when it is due.

        Raises:
            Unavailable: It can't be committed, now or later.
        """
        if self._began_at is None:
            return
        if self._writer.failures:
            self._abort(self._writer.failures[0][0], now)
        elif hurry or now >= self._began_at + self._interval:
            self._commit(now)
        else:
            self._writer.poll(0)

    def forget(self, partitions: Collection[Partition], now: float) -> None:
        """Abort the open transaction if it holds outputs of these partitions."""
        if self._began_at is None:
            return
        if any(commit.partition in partitions for commit in self._ledger.produced_commits()):
            self._abort(f"{len(partitions)} partitions left", now)

    def _commit(self, now: float) -> None:
        commits = self._ledger.produced_commits()
        group = self._ledger.group
        if group is None or generation(group) < 0:
            self._abort("this worker is no member of its group at the moment", now)
            return
        try:
            self._persist("send offsets", lambda: self._writer.send_offsets(commits, group, _CALL_SECONDS))
            self._persist("commit", lambda: self._writer.commit(_CALL_SECONDS))
        except KafkaException as error:
            self._abort(error.args[0], now)
            return
        self._attempts.succeeded()
        self._began_at = None
        self._ledger.settle()
        self._ledger.commit(commits)

    def _abort(self, why: KafkaError | str, now: float) -> None:
        """Abort, and let everything that was produced be produced again after a moment."""
        if isinstance(why, KafkaError):
            if self._writer.failures and not is_rejoining(why):
                why = self._writer.failures[0][0]
            if is_hopeless(why):
                raise Unavailable(f"the transaction can't be committed, trying again would not help: {why}")
        _log.info("transaction aborted, its outputs will be produced again: %s", why)
        self._stats.aborts += 1
        if self._began_at is not None:
            self._persist("abort", lambda: self._writer.abort(_CALL_SECONDS))
        self._began_at = None
        self._writer.failures.clear()
        self._ledger.rewind()
        self._refresh()
        self._resume_at = now + self._attempts.failed(str(why), now)

    def _persist(self, what: str, call: Callable[[], None]) -> None:
        """Call until it comes through; errors that are not retriable are raised.

        Raises:
            KafkaException: It failed for another reason than that it may be called again.
            Unavailable: The deadline of the retries is over.
        """
        attempts = Attempts(self._retries, what)
        while True:
            try:
                return call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                delay = attempts.failed(error, self._clock())
                if self._ledger.wait(lambda: self._ledger.is_stopping, delay):
                    raise Unavailable(f"{what}: given up, the worker is ending") from error


def generation(group: bytes) -> int:
    """The generation in a consumer's group metadata; a broker does not check one below zero.

    Raises:
        RuntimeError: The bytes are not what librdkafka 2 writes.
    """
    if not group.startswith(_METADATA) or len(group) < len(_METADATA) + 4:
        raise RuntimeError(
            f"unknown group metadata {group[:16]!r}: this librdkafka is newer than this program"
        )
    return int(struct.unpack_from("=i", group, len(_METADATA))[0])

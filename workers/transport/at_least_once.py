"""At least once: outputs become durable first; the poller commits their offsets after that.

This thread never waits for a commit and never flushes, so that an output is on its way as soon as its slice is
done. Everything produced is durable at any moment at which the producer's queue is empty. Under load it may not
be for long: then new outputs wait until it is, for about one round trip.
"""

from collections.abc import Collection
from itertools import chain

from confluent_kafka import KafkaException

from features.errors import Unavailable
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.shared import Shared
from workers.transport.writer import Writer

_GLANCE_SECONDS = 0.02  # between looks at the queue when nothing new is produced
_WAIT_SECONDS = 0.005  # of one poll while the queue has to become empty


class AtLeastOnce:
    """The delivery mode in which a record may be delivered again after a crash, but never lost.

    Args:
        shared: The commit interval bounds how long the queue may be busy before new outputs wait.
        writer: The producer.
    """

    def __init__(self, shared: Shared, writer: Writer) -> None:
        self._busy_seconds = 2 * shared.settings.commit_interval.total_seconds()
        self._ledger = shared.ledger
        self._writer = writer
        self._busy_since: float | None = None

    def start(self) -> None:
        """Make the producer."""
        self._writer.start()

    def takes_more(self, now: float) -> bool:
        """False when the queue has been busy for too long."""
        return self._busy_since is None or now - self._busy_since < self._busy_seconds

    @property
    def is_pending(self) -> bool:
        """True while the queue is not known to be empty."""
        return self._busy_since is not None

    def pause(self, now: float) -> float | None:
        """A glance while the queue is busy."""
        del now
        return None if self._busy_since is None else _GLANCE_SECONDS

    def produce(self, spans: list[Span], now: float) -> None:
        """Hand over the outputs; they are sent by the client's own threads.

        Raises:
            Unavailable: The client refuses a record for good.
        """
        if self._busy_since is None:
            self._busy_since = now
        for batch in chain.from_iterable(span.outputs for span in spans):
            try:
                self._writer.write(batch)
            except KafkaException as error:
                self._raise_if_lost()  # an earlier output that was lost says more
                raise Unavailable(
                    f"an output for {batch.topic} can't be produced: {error.args[0]}"
                ) from error

    def advance(self, now: float, *, hurry: bool) -> None:
        """See what was delivered.

        Raises:
            Unavailable: A record could not be delivered.
        """
        waits = hurry or not self.takes_more(now)
        self._look(_WAIT_SECONDS if waits else 0)

    def forget(self, partitions: Collection[Partition], now: float) -> None:
        """Nothing to do: this thread commits nothing."""

    def _look(self, seconds: float) -> None:
        if self._busy_since is None:
            return
        self._writer.poll(seconds if self._writer.outstanding else 0)
        self._raise_if_lost()
        if not self._writer.outstanding:
            self._busy_since = None
            self._ledger.settle()

    def _raise_if_lost(self) -> None:
        if self._writer.failures:
            error, where = self._writer.failures[0]
            raise Unavailable(f"an output for {where} could not be delivered: {error}")

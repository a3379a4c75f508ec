"""The transport without Faust: its threads, put together, started and ended."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
from confluent_kafka import KafkaError, KafkaException

from workers.transport.at_least_once import AtLeastOnce
from workers.transport.clients import consumer_settings, producer_settings
from workers.transport.commits import Commits, ConsumerCommits, TransactionCommits
from workers.transport.delivery import Delivery, Mode
from workers.transport.exactly_once import ExactlyOnce
from workers.transport.hooks import StateHooks
from workers.transport.ledger import Clock
from workers.transport.mailbox import Mailbox
from workers.transport.outputs import OutputBatch
from workers.transport.poller import Agents, Poller
from workers.transport.progress import Span
from workers.transport.settings import Guarantee, TransportSettings
from workers.transport.shared import Shared
from workers.transport.stats import TransportStats, TransportStatus
from workers.transport.watchdog import Watchdog
from workers.transport.writer import Writer

_log = logging.getLogger(__name__)

# How long a thread keeps the interpreter while others wait. With the default of 5 ms the median latency at 1,000
# events/s was 30 ms against 24, and no more events got through a full topic (two cores, four runs each).
_SWITCH_SECONDS = 0.0005
# A fetch makes thousands of short-lived objects that the garbage collector would look at again and again.
_GARBAGE_THRESHOLD = 50_000


class _BrokerStatistics(msgspec.Struct):
    rxidle: int  # microseconds since the last answer; -1 when there was none on this connection


class _ClientStatistics(msgspec.Struct):
    brokers: dict[str, _BrokerStatistics]


class Intake:
    """One worker's transport: reads, hands out slices, makes outputs durable, commits.

    Args:
        settings: What was declared.
        hooks: The keyed state.
        clock: Seconds, monotonic.

    Attributes:
        stats: The counters.
    """

    def __init__(self, settings: TransportSettings, hooks: StateHooks, clock: Clock = time.monotonic) -> None:
        self._shared = Shared(settings, clock, TransportStats())
        self._hooks = hooks
        self._poller: Poller | None = None
        self._delivery: Delivery | None = None
        self._watchdog: Watchdog | None = None

    @property
    def stats(self) -> TransportStats:
        """The counters; they are kept from before the start to after the end."""
        return self._shared.stats

    def status(self) -> TransportStatus:
        """How the transport is now; from any thread."""
        now = self._shared.clock()
        answered_at = self.stats.answered_at
        return TransportStatus(
            partitions=self._shared.ledger.status(now),
            poller_is_alive=self._poller is not None and self._poller.is_alive(),
            delivery_is_alive=self._delivery is not None and self._delivery.is_alive(),
            answered=None if answered_at is None else now - answered_at,
            failure=self._shared.ledger.failure,
        )

    def start(
        self,
        topics: Iterable[str],
        agents: Agents,
        loop: asyncio.AbstractEventLoop,
        crash: Callable[[BaseException], None],
    ) -> None:
        """Start reading.

        Args:
            topics: What to read.
            agents: Who works on the slices.
            loop: Where the state hooks run.
            crash: Ends the process through the event loop; called from any thread.
        """
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        gc.set_threshold(max(gc.get_threshold()[0], _GARBAGE_THRESHOLD), *gc.get_threshold()[1:])
        shared = self._shared
        mailbox = Mailbox(shared.ledger, shared.clock)
        watchdog = Watchdog(shared, crash)
        mode, commits = self._guarantee(mailbox)
        self._watchdog = watchdog
        self._delivery = Delivery(shared, mode, watchdog.fail)
        self._poller = Poller(
            shared,
            client={**consumer_settings(shared.settings), **self._callbacks()},
            topics=topics,
            commits=commits,
            agents=agents,
            hooks=self._hooks,
            loop=loop,
            mailbox=mailbox,
            on_failure=watchdog.fail,
        )
        for thread in (self._delivery, self._poller):
            thread.start()
        watchdog.watch((self._delivery, self._poller))
        watchdog.start()

    def begin(self, span: Span) -> None:
        """An agent takes a span up; from any thread."""
        self._shared.ledger.begin(span)

    def finish(self, span: Span, outputs: Sequence[OutputBatch]) -> None:
        """One agent is done with a span; from any thread."""
        self._shared.ledger.finish(span, outputs)

    def abandon(self) -> None:
        """An agent has failed: commit what is done, deliver nothing more, and leave."""
        self._shared.ledger.abandon()
        if self._poller is not None and self._watchdog is not None:
            self._watchdog.expect_end()
            self._poller.stop()

    async def stop(self) -> None:
        """Drain, commit, leave the group; returns when that is done."""
        if self._poller is None or self._delivery is None or self._watchdog is None:
            return
        self._watchdog.expect_end()
        self._poller.stop()
        await asyncio.to_thread(self._poller.join)
        self._shared.ledger.stop()
        await asyncio.to_thread(self._delivery.join)
        self._watchdog.ended()
        _log.info("the transport has ended: %s", self.stats)

    def _guarantee(self, mailbox: Mailbox) -> tuple[Mode, Commits]:
        shared = self._shared
        writer = Writer(shared, producer_settings(shared.settings), self._callbacks())
        if shared.settings.guarantee is Guarantee.AT_LEAST_ONCE:
            return AtLeastOnce(shared, writer), ConsumerCommits(shared)
        commits = TransactionCommits(shared)
        return ExactlyOnce(shared, writer, refresh=lambda: mailbox.post(commits.rebalanced)), commits

    def _callbacks(self) -> dict[str, Callable[..., None]]:
        return {"error_cb": _on_error, "stats_cb": self._on_statistics}

    def _on_statistics(self, text: str) -> None:
        brokers = msgspec.json.decode(text, type=_ClientStatistics).brokers.values()
        idle = [broker.rxidle for broker in brokers if broker.rxidle >= 0]
        if idle:
            answered_at = self._shared.clock() - min(idle) / 1e6
            self.stats.answered_at = max(answered_at, self.stats.answered_at or answered_at)


def _on_error(error: KafkaError) -> None:
    """What goes wrong inside a client; it logs that, and recovers by itself unless the error is fatal.

    That a series of outputs has a gap is left to the report on the output that is missing, which says why.
    """
    if error.fatal() and error.code() != KafkaError._GAPLESS_GUARANTEE:  # noqa: SLF001 - librdkafka's own code
        raise KafkaException(error)

"""The thread that owns the consumer: polls, cuts slices, pauses, and serves the rebalance callbacks."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from itertools import compress, filterfalse
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from features.errors import Misdeclared, Unavailable
from workers.transport.assignments import Assignments, Delivered
from workers.transport.clients import make_client
from workers.transport.commits import Commits
from workers.transport.cutter import offsets_of, pieces, runs, unseen
from workers.transport.faults import is_transient
from workers.transport.hooks import StateHooks
from workers.transport.mailbox import Mailbox
from workers.transport.partitions import Partition
from workers.transport.pauses import Pauses, Reason
from workers.transport.retries import Attempts
from workers.transport.settings import KafkaValue
from workers.transport.shared import Shared
from workers.transport.slices import Records

_log = logging.getLogger(__name__)

_ROOM_SECONDS = 0.1  # how long to wait unpolled before pausing: a pause throws away what was fetched ahead
_POLL_SECONDS = 0.05
_PAUSED_POLL_SECONDS = 0.005
_STALL_SECONDS = 0.02
_SLICES_A_FETCH = 2
_LOOK_UP_SECONDS = 2.0


class Agents(Protocol):
    """The seam to whoever works on slices."""

    def shares(self, topic: str) -> int:
        """How many agents work on each slice of a topic."""
        ...

    def deliver(self, delivered: Delivered) -> None:
        """Hand records to the agents of their topics; called on the poller's thread."""
        ...


class Poller(threading.Thread):
    """Reads the topics until told to stop, then drains and leaves the group.

    Args:
        shared: Its ledger takes what is read.
        client: What the consumer is made with.
        topics: What to read.
        commits: What is done about offsets.
        agents: Who works on the slices.
        hooks: The keyed state; run on ``loop``.
        loop: The event loop.
        mailbox: Calls queued for this thread.
        on_failure: Called with what ended the thread, if that is an error.

    Attributes:
        stepped_at: When the last step began, on the clock; None before the first.
    """

    def __init__(  # noqa: PLR0913 -- the thread where everything about reading meets
        self,
        shared: Shared,
        *,
        client: dict[str, KafkaValue | Callable[..., None]],
        topics: Iterable[str],
        commits: Commits,
        agents: Agents,
        hooks: StateHooks,
        loop: asyncio.AbstractEventLoop,
        mailbox: Mailbox,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name="poller", daemon=True)
        self._settings = shared.settings
        self._ledger = shared.ledger
        self._stats = shared.stats
        self._clock = shared.clock
        self._client = client
        self._topics = sorted(topics)
        self._commits = commits
        self._agents = agents
        self._mailbox = mailbox
        self._on_failure = on_failure
        self._assignments = Assignments(shared, commits, hooks, loop, mailbox, self._deliver)
        self._pauses = Pauses()
        self._flowing: set[Partition] = set()  # have given a record since they were assigned
        self._stopping = False
        self._consumer: Consumer = None
        self.stepped_at: float | None = None

    def stop(self) -> None:
        """Drain, commit and leave the group; join the thread to wait for it."""
        self._stopping = True
        self._ledger.wake()

    def run(self) -> None:
        """Read until stopped."""
        try:
            self._subscribe()
            while self._is_running():
                self._step()
            self._consumer.close()  # calls on_revoke
        except BaseException as error:  # noqa: BLE001 -- whatever ends a thread ends the process
            self._on_failure(error)

    def _is_running(self) -> bool:
        return not self._stopping and self._ledger.failure is None

    # -- starting ---------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        settings = {**self._client, "on_commit": self._commits.on_commit}
        self._consumer = make_client(Consumer, settings, self._clock)
        self._commits.start(self._consumer)
        for topic in self._topics:
            self._check(topic)
        self._consumer.subscribe(
            self._topics,
            on_assign=self._assignments.on_assign,
            on_revoke=self._leaving(self._assignments.on_revoke),
            on_lost=self._leaving(self._assignments.on_lost),
        )

    def _check(self, topic: str) -> None:
        """Raises Misdeclared when there is no such topic."""
        attempts = Attempts(self._settings.retries, f"looking up topic {topic}")
        while self._is_running():
            try:
                error = self._consumer.list_topics(topic, _LOOK_UP_SECONDS).topics[topic].error
            except KafkaException as failure:
                error = failure.args[0]
            if error is None:
                self._stats.answered_at = self._clock()
                return
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Misdeclared(
                    f"topic {topic!r} does not exist at {self._settings.bootstrap}: create it first"
                )
            if not is_transient(error):
                raise Unavailable(f"topic {topic!r} can't be read: {error}")
            self._mailbox.wait(lambda: self._stopping, attempts.failed(str(error), self._clock()))

    def _leaving(
        self, callback: Callable[[Consumer, list[TopicPartition]], None]
    ) -> Callable[[Consumer, list[TopicPartition]], None]:
        def leave(consumer: Consumer, parts: list[TopicPartition]) -> None:
            leaving = [Partition(each.topic, each.partition) for each in parts]
            paused = self._pauses.forget(leaving)
            if paused:  # the client would keep them paused until they come back, and beyond
                consumer.resume([TopicPartition(*partition) for partition in paused])
            self._flowing.difference_update(leaving)
            callback(consumer, parts)

        return leave

    # -- reading ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.stepped_at = now = self._clock()
        self._mailbox.run()
        self._commits.tick(now)
        if not self._mailbox.wait(lambda: self._stopping or self._has_room(), _ROOM_SECONDS):
            if not self._ledger.has_room():
                self._stall()
                return
            self._pause(self._newly_full(), Reason.FULL)
        paused = self._pauses.because(Reason.FULL)
        self._resume(self._ledger.roomy(paused), Reason.FULL)
        self._read(_PAUSED_POLL_SECONDS if paused else _POLL_SECONDS)

    def _read(self, seconds: float) -> None:
        """One poll that waits, one consume that does not: a consume that waits does so until it is full."""
        self._assignments.revoked_now.clear()
        first = self._consumer.poll(seconds)
        if first is not None:
            messages = self._consumer.consume(self._settings.slice_records * _SLICES_A_FETCH, 0)
            messages.insert(0, first)
            self._dispatch(messages)

    def _dispatch(self, messages: list[Message]) -> None:
        self._stats.answered_at = self._clock()
        events = list(filter(Message.error, messages))
        records = list(filterfalse(Message.error, messages)) if events else messages
        delivered: Delivered = []
        if records:
            for partition, run in runs(records, one_topic=len(self._topics) == 1).items():
                delivered += self._cut(partition, run)
        self._assignments.dispatch(delivered)
        for event in events:
            self._note(event)

    def _cut(self, partition: Partition, messages: list[Message]) -> Delivered:
        position = self._ledger.position(partition)
        if partition in self._assignments.revoked_now and position is not None:
            raise Unavailable(
                f"{partition} left and came back within one fetch: what of it is new can't be told"
            )
        if position is None:
            return []
        offsets = offsets_of(messages)
        mask = unseen(offsets, position)
        if mask is not None:
            self._stats.rewound += int((~mask).sum())
            offsets, messages = offsets[mask], list(compress(messages, mask.tolist()))
        if messages:
            self._flowing.add(partition)
        delivered: Delivered = []
        for piece in pieces(len(messages), self._settings.slice_records):
            records = Records(partition, messages[piece], offsets[piece])
            span = self._ledger.add(records, self._agents.shares(partition.topic))
            if span is not None:
                delivered.append((records, span))
        self._stats.records += len(messages)
        self._stats.slices += len(delivered)
        return delivered

    def _deliver(self, delivered: Delivered) -> None:
        if delivered:
            self._ledger.open(span for _, span in delivered)
            self._agents.deliver(delivered)

    def _note(self, event: Message) -> None:
        """Something other than a record came out of the consumer.

        Raises:
            Unavailable: It does not pass by itself.
        """
        error = event.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 -- librdkafka's own code
            self._ledger.skip_to(Partition(event.topic(), event.partition()), event.offset())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise Unavailable(
                f"{event.topic()}[{event.partition()}] does not hold the next offset ({error.str()}): retention has "
                "removed it, or the topic was made anew and the group's offsets are of the old one"
            )
        elif is_transient(error):
            _log.warning("reading goes on after: %s", error.str())
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and event.topic():
                self._check(event.topic())
        else:
            raise Unavailable(f"reading can't go on: {error}")

    # -- back-pressure ----------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self._ledger.has_room() and self._ledger.has_appetite() and not self._newly_full()

    def _newly_full(self) -> list[Partition]:
        return [partition for partition in self._ledger.full() if partition not in self._pauses]

    def _stall(self) -> None:
        """Too much is in work: pause what flows, but go on serving rebalances, commits and the poll interval."""
        self._stats.stalls += 1
        while self._is_running():
            self.stepped_at = now = self._clock()
            if self._mailbox.wait(lambda: self._stopping or self._ledger.has_room(), _STALL_SECONDS):
                break
            self._commits.tick(now)
            self._pause(self._flowing, Reason.STALL)
            self._assignments.revoked_now.clear()
            message = self._consumer.poll(0)
            if message is not None:
                self._dispatch([message])
        self._resume(self._flowing, Reason.STALL)

    def _pause(self, partitions: Iterable[Partition], reason: Reason) -> None:
        new = self._pauses.add(partitions, reason)
        if new:
            self._stats.pauses += len(new)
            self._consumer.pause([TopicPartition(*partition) for partition in new])

    def _resume(self, partitions: Iterable[Partition], reason: Reason) -> None:
        free = self._pauses.remove(partitions, reason)
        if free:
            self._consumer.resume([TopicPartition(*partition) for partition in free])

"""Publishing dead letters again, each once for a topic, whatever dies in between and whoever else does the same."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from features.errors import Misdeclared, Unavailable
from pipelines.pipeline import Pipeline
from workers.clients import Clients, make_producer
from workers.dead_letter_log import DeadLetter, DeadLetterLog, LetterFilter, Position, Progress, Survey
from workers.log import LogReader
from workers.topics import Topics
from workers.transport.retries import Attempts, Retries

_RECORDS_AT_ONCE, _BYTES_AT_ONCE = 500, 16 << 20
"""Of one transaction."""
_TRANSACTION_MS = 30_000
"""After which the brokers abort what a dead replay has left open: until then readers of its target wait."""
_CALL_SECONDS = 10.0
_RETRIES = Retries(deadline=timedelta(seconds=30))
_ANY_SIZE = 1_000_000_000
"""The topic's own limit is what counts."""
_GONE = "it holds a part of its record, and the source no longer has the rest"
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001 - librdkafka's own code

_REFUSALS = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
)


@dataclass(slots=True)
class Replayed:
    """What came of the letters that were meant.

    Args:
        published: How many were published.
        recognised: How many had been before, to the same topic.
        left: Letters that could not be published, and why.
    """

    published: int = 0
    recognised: int = 0
    left: list[tuple[Position, str]] = field(default_factory=list)


class DeadLetterReplay:
    """Publishes dead letters of a pipeline again.

    1. The transactional id is taken over: another replay of the pipeline that runs can't commit any more.
    2. The topic is read for marks: what was published before is left out.
    3. Records and their marks are written in one transaction, some hundred at a time. A record that the target does not
       take is found by bisection and left, the others are published.

    Args:
        clients: librdkafka settings, as every client gets them.
        pipeline: Whose letters.
        target: The topic that they are published to.
        at_once: The most letters of a transaction.
    """

    def __init__(
        self, clients: Clients, pipeline: Pipeline, target: str, at_once: int = _RECORDS_AT_ONCE
    ) -> None:
        self._clients, self._pipeline, self._target, self._at_once = clients, pipeline, target, at_once
        self._log = DeadLetterLog(clients, pipeline)
        self._refused = ""
        self._partitions = 0

    def check(self) -> None:
        """Raise `Misdeclared` unless the target is there and takes records."""
        if self._target in {self._pipeline.dead_letters, self._pipeline.predictions}:
            raise Misdeclared(
                f"--to {self._target!r} is a sink of pipeline {self._pipeline.name!r}; give its source or a topic of your own"
            )
        self._partitions = Topics(self._clients).states().get(self._target, 0)
        if not self._partitions:
            raise Misdeclared(f"--to {self._target!r}: there is no such topic; create it first")

    def plan(
        self, chosen: LetterFilter, limit: int | None, outcome: Replayed, progress: Progress = lambda _: None
    ) -> Iterator[DeadLetter]:
        """What `run` would publish now; nothing is written, and no other replay disturbed.

        Args:
            chosen: See `run`.
            limit: See `run`.
            outcome: What is not published is counted here.
            progress: Told how many records were looked at.
        """
        yield from self._pending(self._log.survey(progress), chosen, limit, outcome)

    def run(self, chosen: LetterFilter, limit: int | None, progress: Progress = lambda _: None) -> Replayed:
        """Publish the letters that are meant and were not published to the target before.

        Args:
            chosen: Which are meant.
            limit: At most so many, the oldest of each partition first.
            progress: Told of each one that is written.

        Raises:
            Unavailable: The brokers don't answer, or another replay took over.
        """
        producer = make_producer(
            self._clients,
            {
                "transactional.id": f"headrace.{self._pipeline.name}.dlq",
                "transaction.timeout.ms": _TRANSACTION_MS,
                "message.max.bytes": _ANY_SIZE,
            },
        )
        outcome, waiting, size = Replayed(), list[DeadLetter](), 0
        try:
            self._persist(lambda: producer.init_transactions(_CALL_SECONDS))
            for letter in self._pending(self._log.survey(), chosen, limit, outcome):
                waiting.append(letter)
                size += len(letter.value or b"")
                if len(waiting) >= self._at_once or size >= _BYTES_AT_ONCE:
                    self._publish(producer, waiting, outcome, progress)
                    waiting, size = [], 0
            self._publish(producer, waiting, outcome, progress)
        except KafkaException as error:
            raise self._said(error.args[0]) from error
        return outcome

    def _pending(
        self, survey: Survey, chosen: LetterFilter, limit: int | None, outcome: Replayed
    ) -> Iterator[DeadLetter]:
        """The letters to publish, whole; what becomes of the others is counted."""
        seen = {identity for identity, targets in survey.replayed.items() if self._target in targets}
        found = 0
        for letter in self._log.letters(survey, chosen):
            if limit is not None and found >= limit:
                return
            if letter.identity in seen:
                outcome.recognised += 1
            elif (whole := self._whole(letter)) is None:
                outcome.left.append((letter.position, _GONE))
            else:
                seen.add(letter.identity)
                found += 1
                yield whole

    def _whole(self, letter: DeadLetter) -> DeadLetter | None:
        """The letter with all of its record; ``None`` if a part is nowhere."""
        if not letter.truncated:
            return letter
        source = Position.parse(letter.source)
        if source is None:
            return None
        reader, (topic, partition, offset) = LogReader(self._clients, source.topic), source
        if topic not in Topics(self._clients).states():
            return None
        low, high = reader.watermarks().get(partition, (0, 0))
        found = reader.messages({partition: (offset, offset + 1)} if low <= offset < high else {})
        for message in (message for _, messages in found for message in messages):
            if (message.value() or b"").startswith(letter.value or b""):
                headers = message.headers() or []
                return replace(letter, key=message.key(), value=message.value(), headers=headers)
        return None

    def _publish(
        self, producer: Producer, letters: list[DeadLetter], outcome: Replayed, progress: Progress
    ) -> None:
        """Publish some letters; those that the topics don't take are left."""
        attempts = Attempts(_RETRIES, f"the replay to {self._target!r}")
        while letters:
            try:
                self._commit(producer, letters, progress)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                if not self._refused:  # such as a sequence that the abort before has broken
                    time.sleep(attempts.failed(error, time.monotonic()))
                    continue
                if len(letters) == 1:
                    outcome.left.append((letters[0].position, self._refused))
                    return
                middle = len(letters) // 2
                self._publish(producer, letters[:middle], outcome, progress)
                letters = letters[middle:]
            else:
                outcome.published += len(letters)
                return

    def _commit(self, producer: Producer, letters: list[DeadLetter], progress: Progress) -> None:
        """One transaction: the records, and a mark beside each letter."""
        self._refused = ""
        producer.begin_transaction()
        try:
            for letter in letters:
                self._produce(producer, letter)
                progress(1)
            self._persist(lambda: producer.commit_transaction(_CALL_SECONDS))
        except BaseException:
            with suppress(KafkaException):  # what is fenced has been aborted
                producer.abort_transaction(_CALL_SECONDS)
            raise

    def _produce(self, producer: Producer, letter: DeadLetter) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and error.code() in _REFUSALS:
                self._refused = f"{message.topic()} does not take it: {error.str()}"

        at = letter.position
        record = {"value": letter.value, "key": letter.key, "headers": letter.republished()}
        mark = {"headers": letter.mark(self._target)}
        for topic, partition, content in (
            (self._target, self._partition(letter), record),
            (at.topic, at.partition, mark),
        ):
            while True:
                try:
                    producer.produce(topic, partition=partition, on_delivery=delivered, **content)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)

    def _partition(self, letter: DeadLetter) -> int:
        """The record's own partition at its source, whoever chose it; elsewhere that of its key."""
        source = Position.parse(letter.source)
        if source is not None and source.topic == self._target and source.partition < self._partitions:
            return source.partition
        return -1

    def _persist(self, call: Callable[[], object]) -> None:
        """Make a call again for as long as it may pass."""
        attempts = Attempts(_RETRIES, "the transaction of the replay")
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                time.sleep(attempts.failed(error, time.monotonic()))
            else:
                return

    def _said(self, error: KafkaError) -> Unavailable:
        if error.code() in _FENCED or error.fatal():
            return Unavailable(
                f"another replay of pipeline {self._pipeline.name!r} took over ({error.str()}); what this one committed stays"
            )
        return Unavailable(
            f"the replay to {self._target!r} failed: {error.str()}; what was published is recognised when it is run again"
        )

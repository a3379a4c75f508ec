"""Latency: from before produce to the prediction in the hands of a reader, at a steady rate.

Each contender starts with a new group at the end of the topic. An event is known by where it stands, which the
producer learns from its delivery report and the reader from the prediction.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from benchmarks.cluster import Cluster
from benchmarks.contender import BARE, Contender
from benchmarks.contenders.task import Position, Task
from benchmarks.process import Process
from benchmarks.report import LatencyRun
from benchmarks.stages import means_ms, totals
from pipelines.card_fraud import pipeline

Place = tuple[int, int]
"""Partition and offset of an event."""

Payments = Sequence[tuple[bytes, bytes]]
"""Keys and values."""

_START_SECONDS = 60.0
_WARM_SECONDS = 1.5
_WARM_RATE = 500
_CATCH_UP_SECONDS = 15.0
_READER = {
    "fetch.queue.backoff.ms": 5,
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "group.id": "bench-reader",
}


class _Seen(msgspec.Struct):
    source: Position


_decoder = msgspec.json.Decoder(_Seen)


def place_of_prediction(message: Message) -> Place:
    """Where the event of a prediction stands."""
    source = _decoder.decode(message.value()).source
    return source.partition, source.offset


def place_of_copy(message: Message) -> Place:
    """Where the event that the bare loop copied stands."""
    partition, _, offset = message.key().partition(b":")
    return int(partition), int(offset)


class Reader:
    """Notes when each event's output was first in hand, in a thread of its own.

    Args:
        cluster: Where.
        topic: The sink; read from its end.
        place_of: What event an output is of.
    """

    def __init__(self, cluster: Cluster, topic: str, place_of: Callable[[Message], Place]) -> None:
        self._cluster, self._topic, self._place_of = cluster, topic, place_of
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.seen_at: dict[Place, float] = {}
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._consumer = Consumer({**self._cluster.clients, **_READER})
        ends = self._cluster.ends(self._topic)
        self._consumer.assign([TopicPartition(self._topic, number, end) for number, end in enumerate(ends)])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                first = self._consumer.poll(0.05)
                if first is not None:
                    self._take([first, *self._consumer.consume(1000, 0)], time.monotonic())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for an output
            self.failure = error

    def _take(self, messages: list[Message], now: float) -> None:
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            self.seen_at.setdefault(self._place_of(message), now)


class Sender:
    """Produces payments at a steady rate and notes when.

    Args:
        cluster: Where to.
        payments: What; it goes on where it stopped.
    """

    def __init__(self, cluster: Cluster, payments: Payments) -> None:
        self._payments, self._next = payments, 0
        settings = {"linger.ms": 0, "enable.idempotence": True, "partitioner": "murmur2_random"}
        self._producer = Producer({**cluster.clients, **settings})

    def send(self, rate: int, seconds: float) -> dict[Place, float]:
        """By event, when it was about to be produced; returns when all are durable."""
        sent: dict[Place, float] = {}

        def delivered(at: float, error: object, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            sent[message.partition(), message.offset()] = at

        began = time.monotonic()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            while (now := time.monotonic()) < due:
                time.sleep(due - now)
            key, value = self._payments[self._next % len(self._payments)]
            self._next += 1
            at = time.monotonic()
            self._producer.produce(pipeline.source.topic, value, key, on_delivery=partial(delivered, at))
            self._producer.poll(0)
        self._producer.flush(_CATCH_UP_SECONDS)
        return sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What is the same for every contender.

    Args:
        cluster: Where.
        sender: Of the events.
        rates: Events a second, one short run each.
        seconds: Of each short run.
    """

    cluster: Cluster
    sender: Sender
    rates: Sequence[int]
    seconds: float

    def run(self, contender: Contender, task: Task, number: int) -> list[LatencyRun]:
        """One round of one contender: a short run at each rate.

        Raises:
            Unavailable: The contender ended, or an event has no output in time.
        """
        self.cluster.empty([pipeline.source.topic, contender.sink])
        place_of = place_of_copy if contender is BARE else place_of_prediction
        with (
            Process(contender.command(task)) as process,
            Reader(self.cluster, contender.sink, place_of) as reader,
        ):
            _warm_up(process, reader, self.sender)
            return [self._at(rate, contender, task, number, process, reader) for rate in self.rates]

    def _at(  # noqa: PLR0913, PLR0917 - a round's parts
        self, rate: int, contender: Contender, task: Task, number: int, process: Process, reader: Reader
    ) -> LatencyRun:
        before = _totals(contender, task)
        sent = self.sender.send(rate, self.seconds)
        _catch_up(process, reader, sent)
        waits = 1000 * np.array([reader.seen_at[place] - at for place, at in sent.items()])
        p50, p99 = np.percentile(waits, [50, 99]).tolist()
        return LatencyRun(
            contender=contender.name,
            round=number,
            rate=rate,
            events=len(waits),
            p50=p50,
            p99=p99,
            stages_ms=means_ms(before, _totals(contender, task)),
        )


def _totals(contender: Contender, task: Task) -> Mapping[str, tuple[float, float]]:
    return totals(task.admin_port) if contender.sink == pipeline.predictions else {}


def _warm_up(process: Process, reader: Reader, sender: Sender) -> None:
    """Until outputs come, then a little longer."""
    deadline = time.monotonic() + _START_SECONDS
    while not reader.seen_at:
        process.check()
        if time.monotonic() > deadline:
            raise process.failed(f"gave no output within {_START_SECONDS:.0f} s")
        sender.send(20, 0.25)
    _catch_up(process, reader, sender.send(_WARM_RATE, _WARM_SECONDS))


def _catch_up(process: Process, reader: Reader, sent: Mapping[Place, float]) -> None:
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    while missing := len(sent.keys() - reader.seen_at.keys()):
        process.check()
        if reader.failure is not None:
            raise reader.failure
        if time.monotonic() > deadline:
            raise process.failed(f"gave no output for {missing} of {len(sent)} events")
        time.sleep(0.02)

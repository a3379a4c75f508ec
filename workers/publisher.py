"""Publishing recorded events to a topic: flat out, at a rate, or as fast as they happened times a factor."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message

from features.errors import Misdeclared, Unavailable
from workers.clients import make_producer

_CHUNK = 2000
_MOST_QUEUED = 50_000
_LINGER_MS = "5"
_TICK = 0.002
"""Seconds between looks at the clock while nothing is due."""

RECORDS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64())])
"""What is published: Kafka key, value, and event time in ms for pacing; in order."""


class Pace(Protocol):
    """When the next events are due."""

    def due(self, times: np.ndarray, seconds: float) -> int:
        """How many of the events, whose times in ms are ``times``, are due ``seconds`` after the start."""
        ...


@dataclass(frozen=True, slots=True)
class FlatOut:
    """All at once."""

    def due(self, times: np.ndarray, seconds: float) -> int:  # noqa: ARG002
        """All of them."""
        return len(times)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many events a second."""

    per_second: float

    def __post_init__(self) -> None:
        if self.per_second <= 0:
            raise Misdeclared(f"--rate is {self.per_second}; it has to be positive")

    def due(self, times: np.ndarray, seconds: float) -> int:
        """Evenly spread."""
        return min(len(times), int(seconds * self.per_second) + 1)


@dataclass(frozen=True, slots=True)
class Speedup:
    """As they happened, so many times as fast."""

    factor: float

    def __post_init__(self) -> None:
        if self.factor <= 0:
            raise Misdeclared(f"--speedup is {self.factor}; it has to be positive")

    def due(self, times: np.ndarray, seconds: float) -> int:
        """Those whose event time has come."""
        return int(
            np.searchsorted(
                np.maximum.accumulate(times), times[0] + seconds * 1000 * self.factor, side="right"
            )
        )


class Publisher:
    """Writes records to a topic, each to the partition of its key by murmur2, as Java clients do.

    Args:
        clients: librdkafka settings, as every client gets them.
        topic: Where to.
    """

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._failure: KafkaError | None = None
        delivery = {"on_delivery": self._delivered, "delivery.report.only.error": True}
        self._producer = make_producer({"linger.ms": _LINGER_MS, **clients}, delivery)

    def publish(self, records: pa.Table, pace: Pace, progress: Callable[[int], object] | None = None) -> None:
        """Write the records in order; returns when all are durable.

        Args:
            records: With the columns of `RECORDS`.
            pace: How fast.
            progress: Told how many are written next, right before.

        Raises:
            Unavailable: If a record was not taken.
        """
        times = records["time"].to_numpy() if len(records) else np.empty(0, np.int64)
        started, sent = time.monotonic(), 0
        while sent < len(records):
            due = min(pace.due(times, time.monotonic() - started), sent + _CHUNK)
            if due <= sent:
                time.sleep(_TICK)
            else:
                if progress is not None:
                    progress(due - sent)
                self._write(records.slice(sent, due - sent))
                sent = due
            self._producer.poll(0)
        self._flush()

    def _write(self, records: pa.Table) -> None:
        keys, values = records["key"].to_pylist(), records["value"].to_pylist()
        messages = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        while len(self._producer) > _MOST_QUEUED:  # a full queue would let later records overtake
            self._producer.poll(0.01)
        self._raise_failure()
        self._producer.produce_batch(self._topic, messages)
        for message in messages:
            if "_error" in message:
                raise Unavailable(f"Topic {self._topic!r} does not take a record: {message['_error'].str()}")

    def _flush(self) -> None:
        try:
            left = self._producer.flush(60)
        except KafkaException as error:
            raise Unavailable(f"Topic {self._topic!r}: {error}") from error
        self._raise_failure()
        if left:
            raise Unavailable(f"Topic {self._topic!r}: {left} records were not taken within 60 s")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:  # noqa: ARG002
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise Unavailable(f"Topic {self._topic!r} does not take a record: {self._failure.str()}")

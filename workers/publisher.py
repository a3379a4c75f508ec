"""Publishing recorded events to a topic: flat out, at a rate, or as fast as they happened times a factor."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from numpy.typing import NDArray

from features.errors import Misdeclared, Unavailable
from workers.clients import make_producer

_CHUNK = 2000
_MOST_QUEUED = 50_000
_LINGER_MS = "5"
_TICK = 0.002
"""Seconds between looks at the clock while nothing is due."""


class Pace(Protocol):
    """When events are due."""

    def due_at(self, first: int, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds after the start at which each is due, never falling.

        Args:
            first: How many events were before them.
            times: ``(n,)`` ms after the first event of all, never falling.
        """
        ...


@dataclass(frozen=True, slots=True)
class FlatOut:
    """All at once."""

    def due_at(self, first: int, times: NDArray[np.int64]) -> NDArray[np.float64]:  # noqa: ARG002
        """At the start."""
        return np.zeros(len(times))


@dataclass(frozen=True, slots=True)
class Rate:
    """So many events a second."""

    per_second: float

    def __post_init__(self) -> None:
        if self.per_second <= 0:
            raise Misdeclared(f"--rate is {self.per_second}; it has to be positive")

    def due_at(self, first: int, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Evenly spread."""
        return np.arange(first, first + len(times)) / self.per_second


@dataclass(frozen=True, slots=True)
class Speedup:
    """As they happened, so many times as fast."""

    factor: float

    def __post_init__(self) -> None:
        if self.factor <= 0:
            raise Misdeclared(f"--speedup is {self.factor}; it has to be positive")

    def due_at(self, first: int, times: NDArray[np.int64]) -> NDArray[np.float64]:  # noqa: ARG002
        """When its event time has come."""
        return times / 1000 / self.factor


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

    def publish(
        self, tables: Iterable[pa.Table], pace: Pace, progress: Callable[[int], object] = lambda _: None
    ) -> int:
        """Write the records of all tables in order; returns how many, when all are durable.

        Args:
            tables: With the columns of `pipelines.example.RECORDS`; a table is asked for when those before are written.
            pace: How fast.
            progress: Told how many are written next, right before.

        Raises:
            Unavailable: If a record was not taken.
        """
        started, written, first, newest = time.monotonic(), 0, None, 0
        for table in filter(len, tables):
            times = table["time"].to_numpy()
            if first is None:
                first = newest = int(times[0])
            times = np.maximum(np.maximum.accumulate(times), newest)
            self._write_as_due(table, started + pace.due_at(written, times - first), progress)
            written, newest = written + len(table), int(times[-1])
        self._flush()
        return written

    def _write_as_due(
        self, table: pa.Table, due_at: NDArray[np.float64], progress: Callable[[int], object]
    ) -> None:
        """Wait for each record until its moment on the monotonic clock."""
        sent = 0
        while sent < len(table):
            due = min(int(np.searchsorted(due_at, time.monotonic(), side="right")), sent + _CHUNK)
            if due <= sent:
                time.sleep(_TICK)
            else:
                progress(due - sent)
                self._write(table.slice(sent, due - sent))
                sent = due
            self._producer.poll(0)

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

"""What the demo sees from outside: it reads the topics as any consumer would."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np
from confluent_kafka import Message, TopicPartition
from numpy.typing import NDArray

from features.decode import RecordDecoder
from features.kernels.hashing import xxh64_of
from features.records import Records
from models.labels import LabelJoin, label_events
from models.quality import auc
from pipelines.pipeline import Pipeline
from workers.clients import make_consumer

_AT_ONCE = 5000


class _Seen(msgspec.Struct):
    """What the demo needs of a prediction."""

    id: str
    event_time: int
    outputs: dict[str, float]
    label_key: str


@dataclass(slots=True)
class Scores:
    """Every first prediction of an id, in the order seen, with its label once its horizon has closed.

    Args:
        times: Event times, ms.
        values: The model's output.
        labels: By row whose horizon has closed; NaN where the outcome is missing.
    """

    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    labels: dict[int, float] = field(default_factory=dict)

    def auc(self, since: int | None = None) -> float:
        """Of the rows whose label is known, with event times from ``since`` on (ms)."""
        rows = np.fromiter(self.labels, np.int64, len(self.labels))
        labels = np.fromiter(self.labels.values(), np.float64, len(self.labels))
        values, times = np.array(self.values)[rows], np.array(self.times)[rows]
        known = ~np.isnan(labels) & (times >= since if since is not None else True)
        return float(auc(labels[known], values[known])) if known.any() else np.nan


class Monitor:
    """Reads predictions and labels from the topics, in a thread of its own.

    Args:
        pipeline: The flights.
        output: Name of the output that is the score.
        clients: librdkafka settings.
    """

    def __init__(self, pipeline: Pipeline, output: str, clients: Mapping[str, str]) -> None:
        assert pipeline.labels is not None
        self._pipeline, self._output, self._clients, self._labels = (
            pipeline,
            output,
            dict(clients),
            pipeline.labels,
        )
        self._decoder = RecordDecoder(pipeline.source.schema)
        self._prediction = msgspec.json.Decoder(_Seen)
        self._join = LabelJoin(pipeline.labels)
        self._watermarks: dict[tuple[str, int], int] = {}
        self._ids: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._failure: BaseException | None = None
        self.scores = Scores()
        self.events = self.repeated = self.dead_letters = 0
        self.seen_at: dict[str, float] = {}
        self.is_timing = False
        self.last_seen = self._look_at = 0.0
        self.live_auc = np.nan

    @property
    def predictions(self) -> int:
        """Predictions seen, each id once."""
        return len(self._ids)

    def start(self) -> None:
        """Start reading from the beginning."""
        self._thread.start()

    def stop(self) -> None:
        """End reading; every horizon counts as closed. Raises what ended the thread, if something did."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        self._close(None)

    def _run(self) -> None:
        pipeline = self._pipeline
        consumer = make_consumer(self._clients, {"group.id": "headrace-demo"})
        topics = (pipeline.source.topic, pipeline.predictions, pipeline.dead_letters)
        partitions = range(pipeline.source.partitions)
        consumer.assign([TopicPartition(topic, number, 0) for topic in topics for number in partitions])
        try:
            while not self._stop.is_set():
                first = consumer.poll(0.05)
                if first is not None:
                    self._take([first, *consumer.consume(_AT_ONCE, 0)])
                self._look_around(time.monotonic())
        except BaseException as error:  # noqa: BLE001 - raised by stop
            self._failure = error
        finally:
            consumer.close()

    def _take(self, messages: list[Message]) -> None:
        now = time.monotonic()
        good = [message for message in messages if message.error() is None]
        by_topic: dict[str, list[Message]] = {}
        for message in good:
            by_topic.setdefault(message.topic(), []).append(message)
        self._take_events(by_topic.get(self._pipeline.source.topic, []))
        self._take_predictions(by_topic.get(self._pipeline.predictions, []), now)
        self.dead_letters += len(by_topic.get(self._pipeline.dead_letters, []))

    def _take_events(self, messages: list[Message]) -> None:
        """Labels of the arrivals among them."""
        if not messages:
            return
        self.events += len(messages)
        columns = self._decoder.decode(
            Records(
                values=[message.value() for message in messages],
                keys=[message.key() for message in messages],
                offsets=np.array([message.offset() for message in messages]),
                timestamps=np.array([message.timestamp()[1] for message in messages]),
            )
        ).columns
        self._join.add_labels(*label_events(columns, self._labels))
        partitions = np.fromiter(map(Message.partition, messages), np.int64, len(messages))[columns.positions]
        for number in np.unique(partitions).tolist():
            self._advance(self._pipeline.source.topic, number, int(columns.times[partitions == number].max()))

    def _take_predictions(self, messages: list[Message], now: float) -> None:
        keys, times, rows = [], [], []
        for message in messages:
            seen = self._prediction.decode(message.value())
            if seen.id in self._ids:
                self.repeated += 1
                continue
            self._ids.add(seen.id)
            if self.is_timing:
                self.seen_at[seen.label_key] = now
            keys.append(_key_id(seen.label_key))
            times.append(seen.event_time)
            rows.append(len(self.scores.times))
            self.scores.times.append(seen.event_time)
            self.scores.values.append(seen.outputs[self._output])
            self._advance(message.topic(), message.partition(), seen.event_time)
        if rows:
            self.last_seen = now
            self._join.add_rows(_int64(keys), _int64(times), _int64(rows))

    def _advance(self, topic: str, partition: int, when: int) -> None:
        self._watermarks[topic, partition] = max(when, self._watermarks.get((topic, partition), when))

    def _look_around(self, now: float) -> None:
        """Once a second, count the rows whose horizon has closed for both topics.

        Not while latency is measured: this thread would hold up the one that it times.
        """
        if now < self._look_at or not self._watermarks:
            return
        self._close(min(self._watermarks.values()))
        if not self.is_timing:
            self.live_auc = self.scores.auc()
        self._look_at = now + 1.0

    def _close(self, watermark: int | None) -> None:
        closed = self._join.close(watermark)
        self.scores.labels.update(zip(closed.rows.tolist(), closed.labels.tolist(), strict=True))


def _key_id(key: str) -> int:
    return int(np.uint64(xxh64_of(key.encode())).astype(np.int64))


def _int64(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)

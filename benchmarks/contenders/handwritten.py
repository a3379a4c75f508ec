"""The hand-written loop: what a good engineer writes in a day with the best libraries, in one process.

confluent-kafka reads and writes batches, msgspec decodes and encodes typed records, a dict and a Numba kernel
keep the windows, ONNX Runtime runs a batch at a time. At least once: offsets are committed after a flush, every
100 ms. It has no dead letters, keeps no state over a restart and knows no late events.
"""

import signal
import time
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort
from confluent_kafka import Consumer, KafkaException, Message, Producer
from numpy.typing import NDArray

from benchmarks.contenders.clients import reading, writing
from benchmarks.contenders.handwritten_windows import CardWindows
from benchmarks.contenders.task import PIPELINE, Chargeback, Payment, Position, Prediction, Task

_AT_ONCE = 1000
_COMMIT_SECONDS = 0.1
_FLUSH_SECONDS = 30.0


class Loop:
    """Consume, decode, compute, infer, encode, produce."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._consumer = Consumer(reading(task))
        self._producer = Producer({**writing(task), "on_delivery": _undelivered})
        self._session = _session(task.model)
        self._windows = CardWindows()
        self._decode = msgspec.json.Decoder(Payment | Chargeback).decode
        self._encode = msgspec.json.Encoder().encode
        self._commit_at = 0.0
        self.is_stopping = False

    def run(self) -> None:
        """Until told to stop."""
        self._consumer.subscribe([self._task.source])
        while not self.is_stopping:
            first = self._consumer.poll(0.05)
            if first is not None:
                self._score([first, *self._consumer.consume(_AT_ONCE - 1, 0)])
            if time.monotonic() >= self._commit_at:
                self._commit()
        self._commit()
        self._consumer.close()

    def _score(self, messages: list[Message]) -> None:
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        events: list[Any] = [self._decode(message.value()) for message in messages]
        block, is_payment = self._windows.rows(events)
        payments: list[Payment] = list(compress(events, is_payment))
        if payments:
            scores = self._session.run(["score"], {"features": block[is_payment]})[0]
            self._publish(list(compress(messages, is_payment)), payments, scores)

    def _publish(self, messages: list[Message], events: list[Payment], scores: NDArray[np.float32]) -> None:
        source, encode, records = self._task.source, self._encode, []
        for message, event, score in zip(messages, events, scores[:, 0].tolist(), strict=True):
            partition, offset = message.partition(), message.offset()
            value = encode(
                Prediction(
                    f"{source}:{partition}:{offset}:{PIPELINE}",
                    event.card,
                    event.ts,
                    PIPELINE,
                    PIPELINE,
                    "1",
                    {"score": score},
                    event.payment_id,
                    Position(source, partition, offset),
                    None,
                )
            )
            records.append({"value": value, "key": message.key(), "partition": partition})
        if self._producer.produce_batch(self._task.sink, records) < len(records):
            raise SystemExit("the producer's queue is full")
        self._producer.poll(0)

    def _commit(self) -> None:
        if self._producer.flush(_FLUSH_SECONDS):
            raise SystemExit("predictions could not be delivered")
        positions = [
            each for each in self._consumer.position(self._consumer.assignment()) if each.offset >= 0
        ]
        if positions:
            self._consumer.commit(offsets=positions, asynchronous=True)
        self._commit_at = time.monotonic() + _COMMIT_SECONDS


def _session(model: str) -> ort.InferenceSession:
    """With the same options as Headrace's."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _undelivered(error: object, message: Message) -> None:
    raise SystemExit(f"a prediction for {message.topic()} was not delivered: {error}")


def main() -> None:
    """Run until SIGTERM."""
    loop = Loop(Task.from_arguments())

    def stop(number: int, frame: object) -> None:
        del number, frame
        loop.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    loop.run()


if __name__ == "__main__":
    main()

"""The bare loop: consume, produce the same value, no work; what the client and the broker take by themselves.

The key says where the record came from: ``partition:offset``.
"""

import signal
import time

from confluent_kafka import Consumer, KafkaException, Producer

from benchmarks.contenders.clients import reading, writing
from benchmarks.contenders.task import Task

_AT_ONCE = 1000
_COMMIT_SECONDS = 0.1


def main() -> None:
    """Run until SIGTERM."""
    task, stopping = Task.from_arguments(), []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    consumer, producer = Consumer(reading(task)), Producer(writing(task))
    consumer.subscribe([task.source])
    commit_at = 0.0
    while not stopping:
        first = consumer.poll(0.05)
        for message in [] if first is None else [first, *consumer.consume(_AT_ONCE - 1, 0)]:
            if message.error() is not None:
                raise KafkaException(message.error())
            key = b"%d:%d" % (message.partition(), message.offset())
            producer.produce(task.sink, message.value(), key, message.partition())
        producer.poll(0)
        if time.monotonic() >= commit_at:
            positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
            if positions:
                consumer.commit(offsets=positions, asynchronous=True)
            commit_at = time.monotonic() + _COMMIT_SECONDS
    producer.flush(10)
    consumer.close()


if __name__ == "__main__":
    main()

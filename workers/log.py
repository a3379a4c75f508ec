"""Reading a stretch of a topic from outside any group: for recovery, parity and replay.

Aborted transactions are never seen. A stretch ends at an offset, not at a record: control markers and
compacted gaps count as read.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import filterfalse
from operator import itemgetter

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from features.errors import Unavailable
from features.records import Records
from workers.clients import make_consumer
from workers.transport.cutter import offsets_of, runs
from workers.transport.faults import is_transient
from workers.transport.retries import Attempts, Retries

_RECORDS_AT_ONCE = 4096
_PATIENCE = 30.0
"""Seconds without any answer after which a broker counts as away."""

_ANSWER = 3.0
"""Seconds for one answer."""

_RETRIES = Retries(deadline=timedelta(seconds=10))
"""Of looking at a topic: leaders move."""

Ranges = Mapping[int, tuple[int, int | None]]
"""By partition number, the first offset to read and the one to stop before; ``None`` is where the log ends."""

_NO_END = 2**63 - 1


class LogReader:
    """Reads records of one topic between two offsets.

    Args:
        clients: librdkafka settings, as every client gets them.
        topic: The topic.
    """

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._clients, self.topic = dict(clients), topic

    def watermarks(self, *, isolation: str = "read_committed") -> dict[int, tuple[int, int]]:
        """By partition, the oldest offset held and the one after the newest stable record.

        With ``read_uncommitted`` it is the one after the newest record, of which a transaction may still be open.

        Raises:
            Unavailable: If the brokers don't answer or the topic is not there.
        """
        consumer, attempts = (
            self._consumer(isolation),
            Attempts(_RETRIES, f"looking at topic {self.topic!r} at {self._clients['bootstrap.servers']}"),
        )
        try:
            while True:
                try:
                    return self._ask(consumer)
                except KafkaException as error:
                    # A partition that was just listed is unknown while the client learns of its new leader.
                    is_new = error.args[0].code() == KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's own code
                    if not is_new and not is_transient(error.args[0]):
                        raise Unavailable(f"Topic {self.topic!r} can't be looked at: {error}") from error
                    time.sleep(attempts.failed(error, time.monotonic()))
        finally:
            consumer.close()

    def _ask(self, consumer: Consumer) -> dict[int, tuple[int, int]]:
        topic = consumer.list_topics(self.topic, timeout=_ANSWER).topics[self.topic]
        if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(topic.error)
        if not topic.partitions:
            raise Unavailable(f"Topic {self.topic!r} is not there; headrace topics creates it")
        return {
            number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=_ANSWER)
            for number in sorted(topic.partitions)
        }

    def everything(self) -> dict[int, tuple[int, None]]:
        """The whole log, up to where each partition ends when it is read.

        The end is where a fetch finds nothing more: the embedded broker's own word on it counts the last
        batch as one record.
        """
        return {number: (low, None) for number, (low, _) in self.watermarks().items()}

    def read(self, ranges: Ranges, stop: threading.Event | None = None) -> Iterator[tuple[int, Records]]:
        """The same records as columns, a slice at a time; see `messages`."""
        for number, found in self.messages(ranges, stop):
            yield number, _records(found)

    def messages(
        self, ranges: Ranges, stop: threading.Event | None = None
    ) -> Iterator[tuple[int, list[Message]]]:
        """Records of each stretch, each partition's in offset order, in slices; ends early when ``stop`` is set.

        Raises:
            Unavailable: If the brokers stay silent, or the log does not hold the stretch.
        """
        ends = {number: _NO_END if end is None else end for number, (_, end) in ranges.items()}
        ahead = {number: end for number, end in ends.items() if ranges[number][0] < end}
        if not ahead:
            return
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self.topic, number, ranges[number][0]) for number in ahead])
            silent = 0.0
            while ahead and not (stop is not None and stop.is_set()):
                messages = consumer.consume(_RECORDS_AT_ONCE, 0.1)
                silent = 0.0 if messages else silent + 0.1
                if silent > _PATIENCE:
                    raise Unavailable(
                        f"Topic {self.topic!r}: no record for {_PATIENCE:.0f} s, wanted {sorted(ahead)}"
                    )
                yield from self._sort(messages, ahead)
        except KafkaException as error:
            raise Unavailable(f"Topic {self.topic!r} can't be read: {error}") from error
        finally:
            consumer.close()

    def _sort(self, messages: list[Message], ahead: dict[int, int]) -> Iterator[tuple[int, list[Message]]]:
        """The messages by partition; a partition that has come to its end is taken out of ``ahead``."""
        ended = {}
        for event in filter(Message.error, messages):
            if event.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                raise KafkaException(event.error())
            ended[event.partition()] = event.offset()
        records = list(filterfalse(Message.error, messages)) if ended else messages
        for (_, number), found in (runs(records, one_topic=True) if records else {}).items():
            if number not in ahead:
                continue
            if inside := bisect_left(found, ahead[number], key=Message.offset):
                yield number, found[:inside]
            if found[-1].offset() + 1 >= ahead[number]:
                del ahead[number]
        for number, offset in ended.items():
            if offset >= ahead.get(number, 0) or ahead[number] == _NO_END:
                ahead.pop(number, None)

    def _consumer(self, isolation: str = "read_committed") -> Consumer:
        own = {"group.id": "headrace-reader", "enable.partition.eof": True, "auto.offset.reset": "error"}
        return make_consumer(self._clients, {**own, "isolation.level": isolation})


def committed(clients: Mapping[str, str], group: str, topic: str) -> dict[int, tuple[int, str]]:
    """What a group has committed: by partition the offset, -1 for none, and what was stored with it.

    Raises:
        Unavailable: The brokers don't answer.
    """
    consumer = make_consumer(clients, {"group.id": group})
    try:
        there = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
        found = consumer.committed([TopicPartition(topic, number) for number in there], _PATIENCE)
    except KafkaException as error:
        raise Unavailable(f"The offsets of group {group!r} can't be looked up: {error}") from error
    finally:
        consumer.close()
    return {each.partition: (max(each.offset, -1), each.metadata or "") for each in found}


def _records(messages: list[Message]) -> Records:
    stamps = map(itemgetter(1), map(Message.timestamp, messages))
    return Records(
        values=list(map(Message.value, messages)),
        keys=list(map(Message.key, messages)),
        offsets=offsets_of(messages),
        timestamps=np.fromiter(stamps, np.int64, len(messages)),
    )

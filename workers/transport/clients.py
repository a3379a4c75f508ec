"""How the two Kafka clients are configured: the promises first, then low latency, then what the user says."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException

from features.errors import Misdeclared
from workers.transport.calm import Calm
from workers.transport.native.producer import ColumnProducer
from workers.transport.settings import Guarantee, KafkaValue, TransportSettings

# By librdkafka's CONFIGURATION.md: settings that only one kind of client knows; the other would warn about them.
_CONSUMER_ONLY = frozenset(
    (  # noqa: SIM905 -- forty lines would say no more
        "group.instance.id session.timeout.ms heartbeat.interval.ms group.protocol "
        "group.protocol.type group.remote.assignor coordinator.query.interval.ms max.poll.interval.ms "
        "queued.min.messages queued.max.messages.kbytes fetch.wait.max.ms fetch.queue.backoff.ms "
        "fetch.message.max.bytes max.partition.fetch.bytes fetch.max.bytes fetch.min.bytes "
        "fetch.error.backoff.ms check.crcs"
    ).split()
)
_PRODUCER_ONLY = frozenset(
    (  # noqa: SIM905 -- forty lines would say no more
        "transaction.timeout.ms enable.gapless.guarantee queue.buffering.max.messages "
        "queue.buffering.max.kbytes queue.buffering.max.ms linger.ms message.send.max.retries retries "
        "queue.buffering.backpressure.threshold compression.codec compression.type compression.level "
        "batch.num.messages batch.size request.timeout.ms sticky.partitioning.linger.ms "
        "message.timeout.ms delivery.timeout.ms queuing.strategy partitioner"
    ).split()
)

_BOTH: dict[str, KafkaValue] = {
    "reconnect.backoff.max.ms": 1_000,  # of 10 s: a broker that is back is used at once
    # When every broker was away at once, librdkafka 2.16 forgets those it had learned and begins again; a
    # transaction's offsets then wait for ever for the coordinator it knew before.
    "metadata.recovery.strategy": "none",
    "statistics.interval.ms": 2_000,  # tells when a broker answered last
}
_CONSUMER: dict[str, KafkaValue] = {
    "fetch.queue.backoff.ms": 5,  # of 1 s: how long a partition waits after its queue was full
    "fetch.error.backoff.ms": 100,
    "max.partition.fetch.bytes": 256 << 10,  # of 1 MiB: with small records a large fetch starves the others
    "queued.max.messages.kbytes": 32 << 10,  # per partition
}
_CLASSIC: dict[str, KafkaValue] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 8_000,
    "heartbeat.interval.ms": 2_000,
}
_PRODUCER: dict[str, KafkaValue] = {
    "linger.ms": 2,
    "partitioner": "murmur2_random",  # as Java clients do
    "compression.type": "none",
    "queue.buffering.max.messages": 200_000,
    "message.max.bytes": 1_000_000_000,  # of 1,000,000: the topics' own limits are what counts
}
_TRANSACTIONAL: dict[str, KafkaValue] = {
    # A dead worker's open transaction hides later records from readers of committed ones: keep it short. The client
    # gives each record the same time.
    "transaction.timeout.ms": 10_000,
}


Client = TypeVar("Client", Consumer, ColumnProducer)
Value = TypeVar("Value", bound=KafkaValue)


def make_client(
    kind: Callable[..., Client], settings: Mapping[str, object], clock: Callable[[], float]
) -> Client:
    """A consumer or a producer; it connects by itself, and logs through :mod:`logging`.

    Raises:
        Misdeclared: There is no such setting, or no such value of it.
    """
    log = logging.getLogger(f"{__name__}.{kind.__name__.lower()}")
    if not any(isinstance(each, Calm) for each in log.filters):
        log.addFilter(Calm(clock))
    try:
        return kind(dict(settings), logger=log)
    except KafkaException as error:
        raise Misdeclared(
            f"the Kafka client refuses its settings (kafka.*): {error.args[0].str()}"
        ) from error


def consumer_settings(settings: TransportSettings) -> dict[str, KafkaValue]:
    """What the consumer is made with, callbacks apart."""
    own = for_consumer(settings.kafka)
    classic = own.get("group.protocol", "classic") == "classic"
    return {
        **_BOTH,
        **_CONSUMER,
        **(_CLASSIC if classic else {}),
        **own,
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # Every partition starts at an offset we looked up; one that the log does not hold must not pass silently.
        "auto.offset.reset": "error",
    }


def producer_settings(settings: TransportSettings) -> dict[str, KafkaValue]:
    """What the producer is made with, callbacks apart."""
    exactly_once = settings.guarantee is Guarantee.EXACTLY_ONCE
    # A record is tried for as long as any other call: then it counts as lost, which ends the process.
    # What comes after it must not overtake it meanwhile: a restart begins with the lost one.
    at_least_once = {
        "message.timeout.ms": int(settings.retries.deadline.total_seconds() * 1000),
        "enable.gapless.guarantee": True,
    }
    produced = {
        **_BOTH,
        **_PRODUCER,
        **(_TRANSACTIONAL if exactly_once else at_least_once),
        **for_producer(settings.kafka),
        "bootstrap.servers": settings.bootstrap,
        "enable.idempotence": True,
        "delivery.report.only.error": True,
    }
    if settings.transactional_id is not None:
        produced["transactional.id"] = settings.transactional_id
    return produced


def for_consumer(kafka: Mapping[str, Value]) -> dict[str, Value]:
    """The user's settings that are meant for a consumer: ``name`` or ``consumer.name``; the latter wins."""
    return _chosen(kafka, "consumer.", _PRODUCER_ONLY)


def for_producer(kafka: Mapping[str, Value]) -> dict[str, Value]:
    """Those for a producer: ``name`` or ``producer.name``."""
    return _chosen(kafka, "producer.", _CONSUMER_ONLY)


def for_admin(kafka: Mapping[str, Value]) -> dict[str, Value]:
    """Those for a client that neither reads nor writes."""
    return _chosen(kafka, "admin.", _CONSUMER_ONLY | _PRODUCER_ONLY)


def _chosen(kafka: Mapping[str, Value], prefix: str, foreign: frozenset[str]) -> dict[str, Value]:
    chosen = {
        name: value
        for name, value in kafka.items()
        if not name.startswith(("admin.", "consumer.", "producer.")) and name not in foreign
    }
    return chosen | {
        name.removeprefix(prefix): value for name, value in kafka.items() if name.startswith(prefix)
    }

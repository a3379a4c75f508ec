"""Kafka clients of what is no worker: tools, recovery and looks at the brokers.

They say nothing by themselves, their callers raise; each gets of the user's settings those that are meant for it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from features.errors import Misdeclared
from workers.transport.clients import for_admin, for_consumer, for_producer

_QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 1_000}

Client = TypeVar("Client")
Clients = Mapping[str, str]
"""librdkafka settings as `workers.settings.Settings.clients` gives them."""


def make_consumer(clients: Clients, own: Mapping[str, Any]) -> Consumer:
    """A consumer outside any group's assignment that sees committed records alone.

    Args:
        clients: The user's settings.
        own: The caller's; they win.

    Raises:
        Misdeclared: There is no such setting, or no such value of it.
    """
    ours = {"isolation.level": "read_committed", "enable.auto.commit": False, **own}
    return _make(Consumer, {"fetch.queue.backoff.ms": 5, **for_consumer(clients), **ours})


def make_producer(clients: Clients, own: Mapping[str, Any]) -> Producer:
    """An idempotent producer with the partitioner of Java clients; see `make_consumer`."""
    ours = {"enable.idempotence": True, "partitioner": "murmur2_random", **own}
    return _make(Producer, {**for_producer(clients), **ours})


def make_admin(clients: Clients) -> AdminClient:
    """A client that asks and creates; see `make_consumer`."""
    return _make(AdminClient, for_admin(clients))


def _make(kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, Any]) -> Client:
    try:
        return kind({**_QUIET, **settings})
    except KafkaException as error:
        raise Misdeclared(
            f"The Kafka client refuses its settings (kafka.*): {error.args[0].str()}"
        ) from error

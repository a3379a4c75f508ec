"""Waiting until a broker answers."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from features.errors import Unavailable


def wait_until_ready(
    bootstrap: str, *, is_running: Callable[[], bool], log_tail: Callable[[], str], timeout: float
) -> None:
    """Return as soon as the broker answers a metadata request.

    Args:
        bootstrap: ``host:port``.
        is_running: Whether the broker's process still exists.
        log_tail: What the process wrote last, for the message.
        timeout: Seconds.

    Raises:
        Unavailable: The process ended, or the time is over; the message carries the end of its log.
    """
    deadline = time.monotonic() + timeout
    client = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    while time.monotonic() < deadline:
        if not is_running():
            raise Unavailable(f"the broker ended while starting; it wrote:\n{log_tail()}")
        try:
            if client.list_topics(timeout=1.0).brokers:
                return
        except KafkaException:
            continue
    raise Unavailable(f"no broker answered at {bootstrap} within {timeout:.0f} s; it wrote:\n{log_tail()}")

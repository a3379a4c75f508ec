"""Kafka brokers that start on a free port and leave nothing behind, for development, tests and benchmarks.

:class:`EmbeddedBroker` answers in milliseconds and keeps everything in memory; :class:`KafkaBroker` is Apache
Kafka itself. Both are context managers with ``.bootstrap``; only the second is evidence for exactly-once.
"""

from workers.brokers.embedded import EmbeddedBroker
from workers.brokers.kafka import KafkaBroker

__all__ = ["EmbeddedBroker", "KafkaBroker"]

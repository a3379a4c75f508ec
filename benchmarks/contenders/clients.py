"""Headrace's own client settings for the contenders written on the same client: none is faster by settings."""

from benchmarks.contenders.task import Task
from workers.transport.clients import consumer_settings, producer_settings
from workers.transport.settings import KafkaValue, TransportSettings


def reading(task: Task) -> dict[str, KafkaValue]:
    """For a consumer of a new group that starts at the oldest record."""
    shared = consumer_settings(TransportSettings(bootstrap=task.bootstrap, group=task.group))
    return {
        **shared,
        "statistics.interval.ms": 0,
        "enable.partition.eof": False,
        "auto.offset.reset": "earliest",
    }


def writing(task: Task) -> dict[str, KafkaValue]:
    """For a producer."""
    shared = producer_settings(TransportSettings(bootstrap=task.bootstrap, group=task.group))
    return {**shared, "statistics.interval.ms": 0}

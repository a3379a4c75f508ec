"""A pipeline's topics on a broker that other tests use as well."""

from collections.abc import Iterable

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from features.recorded import Placer, RecordedTable
from features.schema import Field
from pipelines.pipeline import Pipeline
from tests.workers.topics_seen import wait_for


def fresh(bootstrap: str, pipeline: Pipeline) -> None:
    """Topics of an earlier test are gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {pipeline.source.topic, pipeline.predictions, pipeline.dead_letters}

    def there() -> Iterable[str]:
        return wanted & set(admin.list_topics(timeout=10).topics)

    if names := list(there()):
        for future in admin.delete_topics(names).values():
            future.result(30)
    wait_for(lambda: not there(), "topics to go")


def publish(bootstrap: str, topic: str, events: pa.Table, partitions: int, pause: float = 0) -> None:
    """Write events, each to the partition that replay puts it on; a hundred at a time, with that many seconds between."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,  # else a batch that is sent again comes behind the next
        }
    )
    placer = Placer(events.schema, Field(name="key", type=str), partitions)
    batches = RecordedTable(events).batches(events.schema.names)
    places = [partition for batch in batches for partition in placer.place(batch)[0].tolist()]
    columns = (events["key"].to_pylist(), events["value"].to_pylist(), places)
    for number, (key, value, partition) in enumerate(zip(*columns, strict=True)):
        producer.produce(topic, value, key, partition)
        producer.poll(pause if number % 100 == 99 else 0)
    assert producer.flush(60) == 0

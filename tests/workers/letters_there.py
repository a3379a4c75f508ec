"""Dead letters on a topic, as a worker writes them, without one."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from features.errors import Malformed
from pipelines import catalog
from pipelines.pipeline import Pipeline
from tests.workers import anyones
from workers.dead_letters import dead_letters
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.slices import Records, Slice

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Key, value and headers."""


def fresh_pipeline(folder: Path, bootstrap: str) -> tuple[Path, Pipeline]:
    """A pipeline with topics of its own, which are there; its file, and what it declares."""
    name = f"machines-{time.time_ns()}"
    text = anyones.PIPELINE.replace('name="machines"', f'name="{name}"')
    path = folder / "machines.py"
    path.write_text(text.replace('topic="machine-events"', f'topic="{name}.events"'))
    pipeline = catalog.load(str(path))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(topic, 2) for topic in (pipeline.source.topic, pipeline.predictions)]
    wide = {"max.message.bytes": "1200000"}
    for future in admin.create_topics([*topics, NewTopic(pipeline.dead_letters, 2, config=wide)]).values():
        future.result(30)
    return path, pipeline


def letter_batch(
    pipeline: Pipeline,
    records: Mapping[int, Record],
    why: Malformed,
    stage: str = "decode",
    partition: int = 0,
    largest: int = 1_048_588,
) -> OutputBatch:
    """The letters of records by their offset in the source."""
    messages = [
        Message(topic=pipeline.source.topic, partition=partition, offset=offset, key=key, value=value, headers=headers)
        for offset, (key, value, headers) in records.items()
    ]  # fmt: skip
    span = Span(
        partition=Partition(pipeline.source.topic, partition), first=min(records), end=max(records) + 1,
        records=len(records), size=1, shares=1,
    )  # fmt: skip
    slice_ = Slice(Records(span.partition, messages, np.array(list(records))), span, lambda *_: None)
    return dead_letters(
        pipeline.dead_letters, pipeline.name, slice_, dict.fromkeys(range(len(records)), why), stage, largest
    )


def write_letters(bootstrap: str, *batches: OutputBatch) -> None:
    """Publish them, each to the partition of its key."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "message.max.bytes": 2_000_000}
    )
    for batch in batches:
        for place, value in enumerate(batch.values):
            key = None if batch.keys is None else batch.keys[place]
            headers = None if batch.headers is None else batch.headers[place]
            producer.produce(batch.topic, value, key, headers=list(headers or ()))
    assert producer.flush(30) == 0


def some(count: int, first: int = 0) -> dict[int, Record]:
    """Records with keys, values and headers of their own, by offset."""
    return {
        offset: (
            str(offset % 7).encode(),
            json.dumps({"number": offset}).encode(),
            [("mine", b"%d" % offset)],
        )
        for offset in range(first, first + count)
    }

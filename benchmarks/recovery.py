"""How fast state comes back: replayed from a topic, beside a loop that only consumes it, and loaded from a checkpoint."""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.scaling.stream import SLICE, uniform
from benchmarks.scaling.variants import DAY_S, EVENTS_A_KEY, ten_windowed
from features.saving import KEYS_A_STEP
from pipelines.pipeline import Pipeline
from workers.checkpoints.manifest import Lineage
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing
from workers.clients import make_consumer
from workers.log import LogReader
from workers.recovery import Means, Recovery
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.retries import Retries

_AT_ONCE = 4096
"""Messages of one consume, as `workers.log` asks for."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's state with 10 windowed features, saved to a local folder and loaded again.

    Args:
        keys: It has.
        size: Bytes of its files.
        save_seconds: To write all of it, nothing else going on.
        load_seconds: To read and check the files and build the state; the goal is 5 with a million keys.
    """

    keys: int
    size: int
    save_seconds: float
    load_seconds: float


class RecoveryRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Replay of a whole topic beside a bare loop of ``consume`` over the same records, in turns.

    Args:
        records: Of the topic.
        bare_seconds: Of each bare loop.
        replay_seconds: Of each recovery, from an empty state.
        ratio: Median over repetitions of bare over replay; the goal is 0.7.
    """

    records: int
    bare_seconds: list[float]
    replay_seconds: list[float]
    ratio: float


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """Both."""

    restored: Restored
    replay: RecoveryRuns | None


def measure_restore(keys: int) -> Restored:
    """One state, loaded three times; the median counts."""
    engine = ten_windowed()
    state = engine.new_partition()
    for columns in islice(uniform(keys, DAY_S / EVENTS_A_KEY).slices(1), EVENTS_A_KEY * keys // SLICE):
        state.process(columns)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        store = CheckpointStore.at(folder)
        writing = Writing(store, Lineage("bench", "bench", "0" * 32, 1, "bench", 0), engine.layout, 0)
        began = time.perf_counter()
        saving = state.begin_saving()
        writer = writing.begin(saving.watermark, 0, everything=True)
        while not saving.is_done:
            saving.step(KEYS_A_STEP)
            writer.write(saving.take())
        checkpoint = writer.close(saving.take())
        saved = time.perf_counter() - began
        loads = [_seconds(lambda: store.load(checkpoint, engine.new_partition())) for _ in range(3)]
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.arrow"))
    return Restored(keys=state.keys, size=size, save_seconds=saved, load_seconds=statistics.median(loads))


def measure_replay(pipeline: Pipeline, clients: Mapping[str, str], repetitions: int) -> RecoveryRuns:
    """The pipeline's source topic, from its beginning to its end."""
    topic = pipeline.source.topic
    ends = {number: high for number, (_, high) in LogReader(clients, topic).watermarks().items()}
    assigned = [
        AssignedPartition(partition=Partition(topic, number), committed=end, metadata="", low=0, high=end)
        for number, end in ends.items()
    ]
    means = Means(
        pipeline=pipeline.name,
        engine=pipeline.engine,
        reader=lambda name: LogReader(clients, name),
        identify=lambda _name: None,
        notes=lambda _name: (),
        store=None,
        retries=Retries(),
        clock=time.monotonic,
        cold_start=False,
    )
    bare, replay = [], []
    for _ in range(repetitions):
        bare.append(_seconds(lambda: _consume(clients, topic, set(ends))))
        replay.append(_seconds(lambda: Recovery(means).run(assigned, threading.Event())))
    return RecoveryRuns(
        records=sum(ends.values()),
        bare_seconds=bare,
        replay_seconds=replay,
        ratio=statistics.median(one / other for one, other in zip(bare, replay, strict=True)),
    )


def _consume(clients: Mapping[str, str], topic: str, numbers: set[int]) -> None:
    own = {"group.id": "bare", "enable.partition.eof": True, "auto.offset.reset": "error"}
    consumer: Consumer = make_consumer(clients, own)
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    left = set(numbers)
    while left:
        for message in consumer.consume(_AT_ONCE, 0.1):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
                left.discard(message.partition())
    consumer.close()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def lines(found: Recovered) -> list[str]:
    """For people."""
    restored, replay = found.restored, found.replay
    said = (
        f"checkpoint of {restored.keys:,} keys: {restored.size / 1e6:.0f} MB, saved in {restored.save_seconds:.2f} s, "
        f"loaded in {restored.load_seconds:.2f} s (goal ≤ 5 with a million)"
    )
    if replay is None:
        return [said]
    speed = replay.records / statistics.median(replay.replay_seconds)
    return [
        said,
        f"recovery replays {speed:,.0f} records/s, {replay.ratio:.2f} of a bare consume loop (goal ≥ 0.7)",
    ]

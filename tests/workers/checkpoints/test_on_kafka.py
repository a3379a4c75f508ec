"""A worker on a real Kafka goes on from its checkpoint, also when the source no longer holds what came before."""

import re
import urllib.request
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from pipelines.replay import replay
from tests.parity.recordings import recording
from tests.parity.test_on_kafka import register
from tests.parity.topics import fresh, publish
from tests.workers.topics_seen import read_all, wait_for
from workers.brokers import KafkaBroker
from workers.log import LogReader
from workers.processes import WorkerProcess
from workers.topics import Topics, topic_specs

pytestmark = pytest.mark.kafka


def metric(worker: WorkerProcess, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/metrics", timeout=10) as answer:
        found = re.search(rf"^headrace_{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("ending", ["killed", "asked to stop"])
def test_rows_are_exact_though_the_source_was_deleted_below_the_checkpoint(
    ending: str, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    it = recording("card_fraud", tmp_path)
    pipeline, bootstrap = it.pipeline, kafka_broker.bootstrap
    rows = replay(pipeline, it.events)
    wanted = dict(
        zip(
            zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True),
            rows["features_digest"].to_pylist(),
            strict=True,
        )
    )
    fresh(bootstrap, pipeline)
    Topics({"bootstrap.servers": bootstrap}).create(topic_specs(pipeline))
    register(it, tmp_path)
    partitions, half = pipeline.source.partitions, len(it.events) // 2
    flags = [
        "--bootstrap", bootstrap, "--registry", str(tmp_path / "registry"), "--checkpoints", str(tmp_path / "checkpoints"),
        "--checkpoint-interval", "200ms", "--group", f"checkpoints-{ending.replace(' ', '-')}",
        "--kafka", "session.timeout.ms=3000", "--kafka", "heartbeat.interval.ms=500",
    ]  # fmt: skip

    def answered() -> dict[tuple[int, int], int]:
        found = {}
        for message in read_all(bootstrap, pipeline.predictions, partitions):
            prediction = msgspec.json.decode(message.value())
            source = prediction["source"]
            found[source["partition"], source["offset"]] = int(prediction["features_digest"], 16)
        return found

    source = LogReader({"bootstrap.servers": bootstrap}, pipeline.source.topic)
    publish(bootstrap, pipeline.source.topic, it.events.slice(0, half), partitions)
    ends = {number: high for number, (_, high) in source.watermarks().items()}
    with WorkerProcess(it.reference, *flags) as worker:
        wait_for(
            lambda: len(answered()) == len(replay(pipeline, it.events.slice(0, half))), "the predictions"
        )
        wait_for(lambda: saved_up_to(tmp_path / "checkpoints") == ends, "the checkpoints")
        if ending == "killed":
            worker._process.kill()
    delete_all(bootstrap, pipeline.source.topic, ends)
    publish(bootstrap, pipeline.source.topic, it.events.slice(half), partitions)
    with WorkerProcess(it.reference, *flags) as worker:
        wait_for(lambda: len(answered()) == len(wanted), "a prediction of every scored event")
        assert metric(worker, "replayed_records_total") == 0
    assert answered() == wanted


def saved_up_to(folder: Path) -> dict[int, int]:
    """By partition, the offset of its newest checkpoint."""
    found: dict[int, int] = {}
    for path in folder.rglob("*.json"):
        number = int(path.parent.name)
        found[number] = max(found.get(number, 0), int(path.name[:20]))
    return found


def delete_all(bootstrap: str, topic: str, ends: dict[int, int]) -> None:
    """DeleteRecords up to these offsets."""
    places = [TopicPartition(topic, number, end) for number, end in ends.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records(places).values():
        future.result(30)

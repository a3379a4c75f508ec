"""A worker on a real Kafka goes on from its checkpoint, also when the source no longer holds what came before."""

import re
import time
import urllib.request
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from features.archive import to_archive
from features.errors import Unavailable
from pipelines.replay import replay
from tests.parity.recordings import recording
from tests.parity.test_on_kafka import register
from tests.parity.topics import fresh, publish
from tests.workers.topics_seen import read_all, wait_for
from workers.brokers import KafkaBroker
from workers.cli import headrace
from workers.log import LogReader
from workers.processes import WorkerProcess
from workers.topics import Topics, topic_specs

pytestmark = pytest.mark.kafka


def metric(worker: WorkerProcess, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/metrics", timeout=10) as answer:
        found = re.search(rf"^headrace_{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


class Stream:
    """Events of a pipeline in two halves, a worker's flags, and what has to come out."""

    def __init__(self, kafka: KafkaBroker, folder: Path) -> None:
        self.it = recording("card_fraud", folder)
        self.pipeline, self.bootstrap = self.it.pipeline, kafka.bootstrap
        half = len(self.it.events) // 2
        self.halves = self.it.events.slice(0, half), self.it.events.slice(half)
        self.wanted = digests(replay(self.pipeline, self.it.events))
        self.first = len(replay(self.pipeline, self.halves[0]))
        fresh(self.bootstrap, self.pipeline)
        Topics({"bootstrap.servers": self.bootstrap}).create(topic_specs(self.pipeline))
        register(self.it, folder)
        self.checkpoints = folder / "checkpoints"
        self.flags = [
            "--bootstrap", self.bootstrap, "--registry", str(folder / "registry"), "--group", f"group-{time.time_ns()}",
            "--checkpoint-interval", "200ms", "--kafka", "session.timeout.ms=3000", "--kafka", "heartbeat.interval.ms=500",
        ]  # fmt: skip
        self.log = LogReader({"bootstrap.servers": self.bootstrap}, self.pipeline.source.topic)

    def publish(self, half: int) -> None:
        publish(
            self.bootstrap, self.pipeline.source.topic, self.halves[half], self.pipeline.source.partitions
        )

    def ends(self) -> dict[int, int]:
        return {number: high for number, (_, high) in self.log.watermarks().items()}

    def worker(self, *flags: str) -> WorkerProcess:
        return WorkerProcess(self.it.reference, *self.flags, *flags)

    def answered(self) -> dict[tuple[int, int], int]:
        """The digest of each prediction, by its event's partition and offset."""
        found = {}
        for message in read_all(self.bootstrap, self.pipeline.predictions, self.pipeline.source.partitions):
            prediction = msgspec.json.decode(message.value())
            source = prediction["source"]
            found[source["partition"], source["offset"]] = int(prediction["features_digest"], 16)
        return found


def digests(rows: pa.Table) -> dict[tuple[int, int], int]:
    places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    return dict(zip(places, rows["features_digest"].to_pylist(), strict=True))


@pytest.fixture
def stream(kafka_broker: KafkaBroker, tmp_path: Path) -> Stream:
    return Stream(kafka_broker, tmp_path)


@pytest.mark.parametrize("ending", ["killed", "asked to stop"])
def test_rows_are_exact_though_the_source_was_deleted_below_the_checkpoint(
    ending: str, stream: Stream
) -> None:
    stream.publish(0)
    ends, checkpoints = stream.ends(), ("--checkpoints", str(stream.checkpoints))
    with stream.worker(*checkpoints) as worker:
        wait_for(lambda: len(stream.answered()) == stream.first, "the predictions")
        wait_for(lambda: saved_up_to(stream.checkpoints) == ends, "the checkpoints")
        if ending == "killed":
            worker._process.kill()
    delete_all(stream.bootstrap, stream.pipeline.source.topic, ends)
    stream.publish(1)
    with stream.worker(*checkpoints) as worker:
        wait_for(lambda: len(stream.answered()) == len(stream.wanted), "a prediction of every scored event")
        assert metric(worker, "replayed_records_total") == 0
    assert stream.answered() == stream.wanted


def test_an_archive_is_folded_into_checkpoints_where_the_source_has_lost_its_beginning(
    stream: Stream, tmp_path: Path
) -> None:
    topic, group = stream.pipeline.source.topic, stream.flags[stream.flags.index("--group") + 1]
    stream.publish(0)
    ends = stream.ends()
    with stream.worker("--checkpoints", "none"):
        wait_for(lambda: len(stream.answered()) == stream.first, "the predictions")
    pieces = [to_archive(number, records) for number, records in stream.log.read(stream.log.everything())]
    archive = pa.concat_tables(pieces)
    pq.write_table(archive, tmp_path / "archive.parquet")
    pq.write_table(archive.slice(0, len(archive) // 2), tmp_path / "torn.parquet")
    delete_all(stream.bootstrap, topic, ends)
    checkpoints = ("--checkpoints", str(stream.checkpoints))
    with pytest.raises(Unavailable, match=r"there is no checkpoint to go on from; .* headrace bootstrap"):
        stream.worker(*checkpoints).__enter__()
    at = ["bootstrap", "card_fraud", "--bootstrap", stream.bootstrap, "--group", group, *checkpoints]
    torn = CliRunner().invoke(headrace, [*at, "--from", str(tmp_path / "torn.parquet")])
    assert re.search(
        r"payments\[\d\]: .* are in neither; give an archive that holds them", str(torn.exception)
    )
    typed = tmp_path / "typed.parquet"
    pq.write_table(archive.select(["key", "value"]), typed)
    unplaced = CliRunner().invoke(headrace, [*at, "--from", str(typed)])
    assert "--from has no columns 'partition' and 'offset'" in str(unplaced.exception)
    done = CliRunner().invoke(headrace, [*at, "--from", str(tmp_path / "archive.parquet")])
    assert done.exit_code == 0, done.output
    assert [f"payments[{number}]: offsets 0 to {end}, " in done.output for number, end in ends.items()] == [
        True
    ] * 4
    assert saved_up_to(stream.checkpoints) == ends
    stream.publish(1)
    with stream.worker(*checkpoints):
        wait_for(lambda: len(stream.answered()) == len(stream.wanted), "a prediction of every scored event")
    assert stream.answered() == stream.wanted


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


def test_a_worker_stops_before_it_reads_partitions_that_were_added(stream: Stream) -> None:
    topics = [stream.pipeline.source.topic, stream.pipeline.predictions, stream.pipeline.dead_letters]
    checkpoints = (
        "--checkpoints",
        str(stream.checkpoints),
        "--kafka",
        "topic.metadata.refresh.interval.ms=500",
    )
    stream.publish(0)
    with stream.worker(*checkpoints) as worker:
        wait_for(lambda: len(stream.answered()) == stream.first, "the predictions")
        admin = AdminClient({"bootstrap.servers": stream.bootstrap})
        for future in admin.create_partitions([NewPartitions(topic, 6) for topic in topics]).values():
            future.result(30)
        wait_for(lambda: worker.has_ended, "the worker to stop")
    assert worker.exit_code == 1
    assert "has 6 partitions, and states are of 4: keys have moved" in worker.last_words()

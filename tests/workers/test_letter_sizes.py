"""Dead letters of the largest records, by a worker on a real Kafka."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from pipelines.pipeline import Pipeline
from tests.workers import anyones
from tests.workers.letters_there import fresh_pipeline
from tests.workers.topics_seen import read_all, wait_for
from workers.brokers import KafkaBroker
from workers.cli import headrace
from workers.processes import WorkerProcess

pytestmark = pytest.mark.kafka
HEADERS = [("mine", b"x" * 100), ("none", b"")]


def limit(bootstrap: str, topic: str, largest: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(largest), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def published(bootstrap: str, topic: str, value: bytes) -> bool:
    """Whether the topic takes a record."""
    failures: list[KafkaError] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "message.max.bytes": 2_000_000,
        "partitioner": "murmur2_random",
    }
    producer = Producer(settings)
    producer.produce(
        topic,
        value,
        b"1",
        headers=HEADERS,
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
    assert producer.flush(30) == 0
    if failures and failures[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
        raise KafkaException(failures[0])
    return not failures


def letters(bootstrap: str, pipeline: Pipeline) -> list[Message]:
    return read_all(bootstrap, pipeline.dead_letters, 2)


def start(tmp_path: Path, bootstrap: str, path: Path, delivery: str) -> WorkerProcess:
    anyones.write_model(tmp_path / "stops.onnx")
    registry = ("--registry", str(tmp_path / "registry"))
    if not (tmp_path / "registry").exists():
        register = ["models", "register", str(tmp_path / "stops.onnx"), "--pipeline", str(path), *registry]
        assert CliRunner().invoke(headrace, register).exit_code == 0
    flags = (
        "--bootstrap",
        bootstrap,
        "--kafka",
        "session.timeout.ms=6000",
        "--kafka",
        "producer.batch.size=100000",
    )
    return WorkerProcess(str(path), *registry, "--delivery", delivery, *flags)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_the_largest_record_that_a_source_takes_is_whole_in_its_letter(
    tmp_path: Path, kafka_broker: KafkaBroker, delivery: str
) -> None:
    bootstrap = kafka_broker.bootstrap
    path, pipeline = fresh_pipeline(tmp_path, bootstrap)
    size = 1_048_588
    while not published(bootstrap, pipeline.source.topic, b"{" + b" " * size):
        size -= 1
    assert 1_048_588 - size < 300
    with start(tmp_path, bootstrap, path, delivery):
        wait_for(lambda: bool(letters(bootstrap, pipeline)), "the letter")
    ((letter,), (original,)) = letters(bootstrap, pipeline), read_all(bootstrap, pipeline.source.topic, 2)
    assert (letter.key(), letter.value()) == (original.key(), original.value())
    assert letter.headers()[: len(HEADERS)] == original.headers()
    assert "headrace.truncated" not in dict(letter.headers())
    replayed = CliRunner().invoke(headrace, ["dlq", str(path), "replay", "--bootstrap", bootstrap])
    assert "does not take it" in replayed.output  # its two headers more are too many for the source
    shown = CliRunner().invoke(headrace, ["dlq", str(path), "list", "--json", "--bootstrap", bootstrap])
    assert json.loads(shown.output)["counts"][0]["replayed"] == 0


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_letter_that_the_broker_refuses_is_cut_when_the_worker_is_back_and_the_stream_goes_on(
    tmp_path: Path, kafka_broker: KafkaBroker, delivery: str
) -> None:
    """The topic's limit is lowered while the worker runs: the worker ends once, not again and again."""
    bootstrap = kafka_broker.bootstrap
    path, pipeline = fresh_pipeline(tmp_path, bootstrap)
    with start(tmp_path, bootstrap, path, delivery) as worker:
        assert published(bootstrap, pipeline.source.topic, b"small")
        wait_for(lambda: len(letters(bootstrap, pipeline)) == 1, "the first letter")
        limit(bootstrap, pipeline.dead_letters, 300_000)
        assert published(bootstrap, pipeline.source.topic, b"{" + b" " * 900_000)
        wait_for(lambda: worker._process.poll() is not None, "the worker to end")
        assert "Message size too large" in worker.last_words()
    assert worker.exit_code == 1
    with start(tmp_path, bootstrap, path, delivery) as worker:
        assert published(bootstrap, pipeline.source.topic, b"small again")
        wait_for(lambda: len(letters(bootstrap, pipeline)) >= 3, "the other letters")
        assert worker._process.poll() is None
    values = [message.value() for message in letters(bootstrap, pipeline)]
    assert values[0] == b"small"
    assert values[-1] == b"small again"
    (cut,) = {value for value in values[1:-1] if value.startswith(b"{")}
    assert 250_000 < len(cut) < 300_000

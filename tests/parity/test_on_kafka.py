"""Every pipeline on a real Kafka: killed, restarted and rebalanced, and every row is the one that the topics give."""

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Message

from tests.features import streams
from tests.parity.recordings import PIPELINES, Recording, recording
from tests.parity.topics import fresh, publish
from tests.workers import anyones
from tests.workers.topics_seen import read_all, wait_for
from workers.brokers import KafkaBroker
from workers.cli import headrace
from workers.log import LogReader
from workers.processes import WorkerProcess, parity_report
from workers.topics import Topics, topic_specs

pytestmark = pytest.mark.kafka
DELIVERIES = ["at_least_once", "exactly_once"]


@pytest.fixture(params=[(name, DELIVERIES[i % 2]) for i, name in enumerate(PIPELINES)], ids=str)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Recording, str]:
    name, delivery = request.param
    return recording(name, tmp_path), delivery


def register(recorded: Recording, folder: Path) -> None:
    """A model that takes every float column."""
    model = anyones.write_model(folder / "any.onnx", floats=len(recorded.pipeline.engine.float_columns))
    arguments = [
        "models",
        "register",
        str(model),
        "--pipeline",
        recorded.reference,
        "--registry",
        str(folder / "registry"),
    ]
    done = CliRunner().invoke(headrace, arguments)
    assert done.exit_code == 0, done.output


def test_no_row_differs_after_kills_restarts_and_rebalances(
    recorded: tuple[Recording, str], kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    it, delivery = recorded
    wanted = scored(it)
    pipeline, bootstrap = it.pipeline, kafka_broker.bootstrap
    fresh(bootstrap, pipeline)
    Topics({"bootstrap.servers": bootstrap}).create(topic_specs(pipeline))
    register(it, tmp_path)
    flags = [
        "--bootstrap", bootstrap, "--registry", str(tmp_path / "registry"), "--delivery", delivery, "--log-features", "0.5",
        "--group", f"parity-{time.time_ns()}", "--kafka", "session.timeout.ms=3000", "--kafka", "heartbeat.interval.ms=500",
        "--slice-records", "50", "--commit-interval", "20ms",
        "--checkpoints", str(tmp_path / "checkpoints"), "--checkpoint-interval", "200ms",
    ]  # fmt: skip
    thirds = [
        it.events.slice(first, len(it.events) // 3) for first in range(0, len(it.events), len(it.events) // 3)
    ]

    def predictions() -> list[Message]:
        return read_all(bootstrap, pipeline.predictions, pipeline.source.partitions)

    def feed(part: int, pause: float = 0) -> None:
        publish(bootstrap, pipeline.source.topic, thirds[part], pipeline.source.partitions, pause)

    def written() -> int:
        return sum(high - low for low, high in log.watermarks().values())

    def answered() -> int:
        return len({message.value()[: message.value().index(b",")] for message in predictions()})

    log = LogReader({"bootstrap.servers": bootstrap}, pipeline.predictions)
    with ExitStack() as running:
        first = running.enter_context(WorkerProcess(it.reference, *flags, "--slot", "0"))
        feed(0)
        wait_for(lambda: written() > 0, "the first predictions")
        second = running.enter_context(WorkerProcess(it.reference, *flags, "--slot", "1"))  # a rebalance
        for part, victim in ((1, first), (2, second)):
            seen = written()
            feeding = threading.Thread(target=feed, args=(part, 0.05))
            feeding.start()
            wait_for(lambda seen=seen: written() > seen, "predictions of both")  # type: ignore[misc]
            victim._process.kill()  # while it works; the other takes over after its session
            feeding.join()
            again = running.enter_context(WorkerProcess(it.reference, *flags, "--slot", str(part - 1)))
        wait_for(lambda: written() >= wanted and answered() == wanted, "a prediction of every scored event")
        again.check()
    report = parity_report(it.reference, bootstrap)
    assert (report["rows"], report["missing"], report["extra"]) == (wanted, 0, 0)
    assert (report["mismatches"], report["contradicting"], report["first"]) == (0, 0, None)
    assert report["repeated"] == 0 or delivery == "at_least_once"
    assert all(each == {"rows": wanted, "mismatches": 0} for each in report["features"].values())
    logged = sum(b'"features":{' in message.value() for message in predictions())
    assert 0 < logged < len(predictions())


def scored(it: Recording) -> int:
    """Events that have to be answered."""
    return sum(
        map(len, streams.replayed(it.pipeline.engine, it.events, partitions=it.pipeline.source.partitions))
    )

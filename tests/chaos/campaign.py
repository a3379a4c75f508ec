"""A campaign: rounds of load and a fault, and then the judgement of readers outside."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from benchmarks.events import made_up
from pipelines import catalog
from tests.chaos import faults
from tests.chaos.faults import SESSION_SECONDS
from tests.chaos.fleet import Fleet
from tests.workers import anyones
from tests.workers.topics_seen import read_all
from workers.brokers import KafkaBroker
from workers.log import LogReader
from workers.processes import parity_report
from workers.publisher import FlatOut, Publisher
from workers.topics import Topics, topic_specs

PIPELINE = "card_fraud"

_BROKER = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 2_000,
    "group.consumer.session.timeout.ms": int(1000 * SESSION_SECONDS),
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
_PROTOCOLS = {
    "classic": {"session.timeout.ms": str(int(1000 * SESSION_SECONDS)), "heartbeat.interval.ms": "500"},
    "consumer": {"group.protocol": "consumer"},
}
_PATIENCE = 180.0
_MOST_OF_A_ROUND = 0.2
"""Seconds at most in which a round's events are worked on before the fault comes."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How a campaign is run.

    Args:
        rounds: Of load and a fault.
        seed: Of everything that is drawn.
        delivery: ``at_least_once`` or ``exactly_once``.
        protocol: Of the group, ``classic`` or ``consumer`` (KIP-848).
        workers: How many.
        events: Published in each round.
        in_flight: Events that are not yet answered when the fault comes, at least.
        program: What is run as ``headrace``.
    """

    rounds: int = 100
    seed: int = 1
    delivery: str = "at_least_once"
    protocol: str = "classic"
    workers: int = 3
    events: int = 8_000
    in_flight: int = 1_000
    program: Sequence[str] = (sys.executable, "-m", "workers.cli")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What readers outside found.

    Args:
        form: What was run.
        faults: How often each came.
        ended: How often a worker ended by itself and was started again.
        least_in_flight: The fewest events that waited when a fault came.
        events: Published.
        scored: Rows that have to be answered.
        lost: Of them, without a prediction.
        repeated: Predictions beyond the first of a row.
        unequal: Rows whose predictions differ among each other.
        mismatches: Predictions whose features are not those that the log gives.
        unexpected: Predictions of what is not scored.
        seconds: It took.
    """

    form: Form
    faults: dict[str, int]
    ended: int
    least_in_flight: int
    events: int
    scored: int
    lost: int
    repeated: int
    unequal: int
    mismatches: int
    unexpected: int
    seconds: float

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept."""
        promised = {"lost": 0, "unequal": 0, "mismatches": 0, "unexpected": 0}
        if self.form.delivery == "exactly_once":
            promised["repeated"] = 0
        return [name for name, most in promised.items() if getattr(self, name) > most]

    def __str__(self) -> str:
        named = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        form = self.form
        return (
            f"{form.delivery}, {form.protocol}, seed {form.seed}: {form.rounds} rounds ({named}), {self.ended} ended by "
            f"themselves, at least {self.least_in_flight} events in flight; {self.scored} rows: {self.lost} lost, "
            f"{self.repeated} repeated, {self.unequal} unequal, {self.mismatches} parity mismatches, "
            f"{self.unexpected} unexpected; {self.seconds:.0f} s"
        )


def run(form: Form, say: Callable[[str], object]) -> Outcome:
    """Run a campaign on a broker of its own."""
    began, random, pipeline = time.monotonic(), Random(form.seed), catalog.load(PIPELINE)
    events = made_up(form.rounds * form.events, seed=form.seed, cards=2_000)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-chaos-") as name,
        KafkaBroker(settings=_BROKER) as broker,
    ):
        folder, clients = Path(name), {"bootstrap.servers": broker.bootstrap}
        Topics(clients).create(topic_specs(pipeline))
        _register(folder)
        group = f"chaos-{form.seed}"
        came, least = Counter[str](), sys.maxsize
        with (
            Fleet(_command(form, broker.bootstrap, folder, group), form.workers) as fleet,
            _lag(clients, group) as lag,
        ):
            publisher = Publisher(clients, pipeline.source.topic)
            for number in range(form.rounds):
                _publish(publisher, events.slice(number * form.events, form.events))
                fault = faults.drawn(random)
                time.sleep(random.uniform(0, _MOST_OF_A_ROUND))
                waiting = lag()
                if waiting < form.in_flight:
                    say(f"round {number + 1}: only {waiting} in flight")
                least = min(least, waiting)
                fault(fleet, broker, random)
                came[fault.__name__] += 1
                fleet.wait_until_ready()
                say(f"round {number + 1}: {fault.__name__} with {waiting} in flight, {lag()} left")
            _wait(lambda: lag() == 0, fleet)
            ended = fleet.ended
        report = parity_report(PIPELINE, broker.bootstrap)
        unequal = _unequal(broker.bootstrap)
    return Outcome(
        form=form,
        faults=dict(came),
        ended=ended,
        least_in_flight=least,
        events=len(events),
        scored=report["rows"] + report["missing"],
        lost=report["missing"],
        repeated=report["repeated"],
        unequal=unequal,
        mismatches=report["mismatches"],
        unexpected=report["extra"],
        seconds=time.monotonic() - began,
    )


def _command(form: Form, bootstrap: str, folder: Path, group: str) -> list[str]:
    kafka = [f"--kafka={name}={value}" for name, value in _PROTOCOLS[form.protocol].items()]
    return [
        *form.program, "worker", PIPELINE, "--bootstrap", bootstrap, "--registry", str(folder / "registry"), "--group", group,
        "--delivery", form.delivery, "--slice-records", "25", "--commit-interval", "50ms", "--retry-for", "60s",
        "--checkpoints", str(folder / "checkpoints"), "--checkpoint-interval", "500ms", *kafka,
    ]  # fmt: skip


def _register(folder: Path) -> None:
    pipeline = catalog.load(PIPELINE)
    model = anyones.write_model(folder / "any.onnx", floats=len(pipeline.engine.float_columns))
    at = ("--pipeline", PIPELINE, "--registry", str(folder / "registry"))
    anyones.run(folder, "models", "register", str(model), *at)


def _publish(publisher: Publisher, events: pa.Table) -> None:
    publisher.publish([events], FlatOut())


@contextmanager
def _lag(clients: dict[str, str], group: str) -> Iterator[Callable[[], int]]:
    """Offsets that are published and not committed."""
    pipeline = catalog.load(PIPELINE)
    reader = LogReader(clients, pipeline.source.topic)
    member = Consumer({**clients, "group.id": group, "isolation.level": "read_uncommitted", "log_level": 0})

    def lag() -> int:
        ends = {number: high for number, (_, high) in reader.watermarks().items()}
        places = [TopicPartition(pipeline.source.topic, number) for number in ends]
        committed = member.committed(places, 30)
        return sum(ends[each.partition] - max(0, each.offset) for each in committed)

    yield lag
    member.close()


def _wait(condition: Callable[[], bool], fleet: Fleet) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"events were left for {_PATIENCE:.0f} s; {fleet.last_words()}"
        fleet.look_after()
        time.sleep(0.3)


def _unequal(bootstrap: str) -> int:
    """Ids with more than one content."""
    pipeline = catalog.load(PIPELINE)
    contents: dict[bytes, bytes | None] = {}
    unequal = set()
    for message in read_all(bootstrap, pipeline.predictions, pipeline.source.partitions):
        value = message.value()
        id_ = value[: value.index(b",")]
        if contents.setdefault(id_, value) != value:
            unequal.add(id_)
    return len(unequal)

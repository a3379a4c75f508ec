"""The demo, step by step; it fails unless every promise it shows has been kept."""

import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pyarrow as pa
from rich.console import Console

from features.errors import HeadraceError
from models.registry import ModelRef, Registry
from pipelines import catalog
from workers.brokers import EmbeddedBroker
from workers.demo.monitor import Monitor
from workers.demo.view import View
from workers.processes import WorkerProcess, parity_report
from workers.publisher import FlatOut, Pace, Publisher, Rate
from workers.settings import Settings
from workers.topics import Topics, topic_specs

PIPELINE = "flights"
LATENCY_RATE, LATENCY_SECONDS = 1000, 30
AUC_TOLERANCE = 1e-4
_CATCH_UP = 120.0
"""Seconds for the predictions to come after the last event."""
_EMBEDDED = {"session.timeout.ms": "6000", "fetch.wait.max.ms": "10"}
"""The embedded broker lets a group join in about half of the first, and answers a waiting fetch after the second,
also when records come before."""


class Latency(msgspec.Struct):
    """Milliseconds from produce to the prediction being visible to a consumer."""

    p50: float
    p99: float


class Parity(msgspec.Struct):
    """What a fresh process found in the topics."""

    rows: int
    mismatches: int


class DemoReport(msgspec.Struct):
    """What the demo measured; ``demo-report.json``.

    Args:
        events: Published.
        predictions: Seen, each id once.
        dead_letters: Seen.
        events_per_second: Of the flat-out part, from the first event to the last prediction.
        latency_ms: At 1,000 events a second.
        auc: On the test span of the model's training, from predictions and arrivals in the topics.
        parity: Rows compared and found different.
        seconds: From the start of the broker to the report.
    """

    events: int
    predictions: int
    dead_letters: int
    events_per_second: float
    latency_ms: Latency
    auc: float
    parity: Parity
    seconds: float


class DemoFailed(HeadraceError):
    """A promise that the demo shows was not kept."""


@dataclass(slots=True, kw_only=True)
class Demo:
    """Runs everything on this machine and writes the report.

    Args:
        settings: The registry, and librdkafka's settings.
        console: Where people look.
        report: File to write.
    """

    settings: Settings
    console: Console
    report: Path

    def run(self) -> DemoReport:
        """Broker, topics, worker, all events of 2013, latency, parity, report; raises `DemoFailed`."""
        started = time.monotonic()
        pipeline = catalog.load(PIPELINE)
        manifest = Registry.at(self.settings.registry).manifest(ModelRef.parse(pipeline.model).name)
        assert pipeline.example is not None
        self.console.print("reading the flights of 2013 ...")
        events = pipeline.example()
        tail = LATENCY_RATE * LATENCY_SECONDS
        with EmbeddedBroker() as broker, TemporaryDirectory() as checkpoints:
            clients = {"bootstrap.servers": broker.bootstrap, **_EMBEDDED}
            Topics(clients).create(topic_specs(pipeline))
            monitor = Monitor(pipeline, manifest.outputs[0].published, clients)
            flags = (
                "--bootstrap",
                broker.bootstrap,
                "--registry",
                self.settings.registry,
                "--checkpoints",
                checkpoints,
                *_kafka_flags(),
            )
            self.console.print(f"broker at {broker.bootstrap}; starting the worker ...")
            with WorkerProcess(PIPELINE, *flags) as worker:
                steps = _Steps(worker, monitor, View(monitor, self.console), clients, pipeline.source.topic)
                monitor.start()
                per_second = steps.flat_out(
                    events.slice(0, len(events) - tail), _scheduled(events.slice(0, len(events) - tail))
                )
                latency = steps.at_a_rate(events.slice(len(events) - tail), _scheduled(events))
            monitor.stop()
            self.console.print("recomputing every row in a fresh process ...")
            parity = parity_report(PIPELINE, broker.bootstrap)
        assert manifest.training is not None
        test = manifest.training.data.spans["test"]
        report = DemoReport(
            events=len(events),
            predictions=monitor.predictions,
            dead_letters=monitor.dead_letters,
            events_per_second=per_second,
            latency_ms=latency,
            auc=monitor.scores.auc(since=int(test.begin.timestamp() * 1000)),
            parity=Parity(rows=parity["rows"], mismatches=parity["mismatches"]),
            seconds=time.monotonic() - started,
        )
        self.report.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
        _judge(report, scheduled=_scheduled(events), trained_auc=manifest.training.metrics.auc)
        return report


class _Steps:
    """The parts during which the worker runs."""

    def __init__(
        self, worker: WorkerProcess, monitor: Monitor, view: View, clients: dict[str, str], topic: str
    ) -> None:
        self._worker, self._monitor, self._view = worker, monitor, view
        self._clients, self._topic = clients, topic

    def flat_out(self, events: pa.Table, scheduled: int) -> float:
        """Publish as fast as the broker takes them; events a second until the last prediction is seen."""
        began = time.monotonic()
        self._publish(events, FlatOut(), "publishing 2013 as fast as it goes", scheduled, None)
        return len(events) / (self._monitor.last_seen - began)

    def at_a_rate(self, events: pa.Table, scheduled: int) -> Latency:
        """Publish the last flights of the year at 1,000 a second; latency of their predictions."""
        sent: list[float] = []
        self._monitor.is_timing = True
        what = f"the last {len(events):,} events of the year at {LATENCY_RATE:,} a second"
        self._publish(events, Rate(LATENCY_RATE), what, scheduled, sent)
        keys = [msgspec.json.decode(value)["flight_id"] for value in events["value"].to_pylist()]
        kinds = [msgspec.json.decode(value)["kind"] for value in events["value"].to_pylist()]
        waits = [
            1000 * (self._monitor.seen_at[key] - at)
            for key, kind, at in zip(keys, kinds, sent, strict=True)
            if kind == "scheduled" and key in self._monitor.seen_at
        ]
        return Latency(p50=float(np.percentile(waits, 50)), p99=float(np.percentile(waits, 99)))

    def _publish(
        self, events: pa.Table, pace: Pace, what: str, scheduled: int, sent: list[float] | None
    ) -> None:
        """Publish, and wait until as many predictions are seen as flights were scheduled."""

        def note(count: int) -> None:
            if sent is not None:
                sent.extend([time.monotonic()] * count)

        failure: list[BaseException] = []

        def publish() -> None:
            try:
                Publisher(self._clients, self._topic).publish([events], pace, note)
            except BaseException as error:  # noqa: BLE001 - raised below
                failure.append(error)

        thread = threading.Thread(target=publish, name="publisher", daemon=True)
        thread.start()
        with self._view.shown() as view:
            deadline = math.inf
            while thread.is_alive() or (
                self._monitor.predictions < scheduled and time.monotonic() < deadline
            ):
                self._worker.check()
                view.update(what)
                thread.join(0.25)
                if not thread.is_alive() and math.isinf(deadline):
                    deadline = time.monotonic() + _CATCH_UP
                elif not thread.is_alive():
                    time.sleep(0.05)
        if failure:
            raise failure[0]


def _kafka_flags() -> list[str]:
    return [part for name, value in _EMBEDDED.items() for part in ("--kafka", f"{name}={value}")]


def _scheduled(events: pa.Table) -> int:
    """How many of the events are scored."""
    return sum(b'"kind":"scheduled"' in value for value in events["value"].to_pylist())


def _judge(report: DemoReport, *, scheduled: int, trained_auc: float | None) -> None:
    broken = []
    if report.parity.mismatches or report.parity.rows != scheduled:
        broken.append(
            f"parity: {report.parity.mismatches} of {report.parity.rows} rows differ, {scheduled} flights were scheduled"
        )
    if report.predictions != scheduled:
        broken.append(f"{scheduled} flights were scheduled and {report.predictions} predicted")
    if trained_auc is None or not abs(report.auc - trained_auc) <= AUC_TOLERANCE:
        broken.append(f"AUC is {report.auc} on the stream and {trained_auc} in the model's manifest")
    if broken:
        raise DemoFailed("; ".join(broken))

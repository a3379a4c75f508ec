"""Kafka as this machine sees it: the flights published with ``headrace``, the topics read by a plain consumer."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.flights import pipeline
from tests.compose.stack import run
from tests.workers.transport.cluster import Cluster, Record, eventually

_HEADRACE = str(Path(sys.executable).with_name("headrace"))
_PATIENCE = 120.0


class Host:
    """Publishes and reads.

    Args:
        bootstrap: Kafka, from this machine.
        folder: Where it may write files.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap, self._folder = bootstrap, folder

    @contextmanager
    def publishing(self, events: pa.Table, rate: float) -> Iterator[subprocess.Popen[bytes]]:
        """While ``headrace publish`` writes these events; ends when all are durable."""
        file, log = self._folder / "events.parquet", self._folder / "publish.log"
        pq.write_table(events, file)
        command = [_HEADRACE, "publish", "flights", "--from", str(file), "--rate", str(rate), *self._at]
        with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as publisher:
            try:
                yield publisher
                assert publisher.wait(_PATIENCE) == 0, log.read_text()
            finally:
                publisher.kill()

    def run_page(self, page: Path) -> None:
        """The Python of a page of the documentation, as a reader would."""
        (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        code = block.replace("127.0.0.1:9092", self._bootstrap)
        assert run([sys.executable, "-c", code]).stdout.startswith("{'late': "), code

    def parity(self) -> str:
        """What ``headrace parity`` says; it fails unless all rows are there and equal."""
        return run([_HEADRACE, "parity", "flights", *self._at]).stdout.strip()

    def events(self) -> list[list[Record]]:
        """Everything in the source topic, by partition."""
        return self._read(pipeline.source.topic)

    def predictions(self) -> dict[str, Any]:
        """Everything in the predictions topic, by id; the first of an id counts."""
        found: dict[str, Any] = {}
        for records in self._read(pipeline.predictions):
            for record in records:
                prediction = _value(record)
                first = found.setdefault(prediction["id"], prediction)
                assert first == prediction, f"{first} was said first, then {prediction}"
        return found

    def every_scored_event_gets_its_prediction(self, events: int) -> str:
        """Waits for it, knowing how many events were published; returns what was counted."""
        there = self.events()
        assert sum(map(len, there)) == events, f"{sum(map(len, there))} events, and {events} were published"
        scheduled = {
            f"{pipeline.source.topic}:{partition}:{record.offset}:{pipeline.name}": event
            for partition, records in enumerate(there)
            for record in records
            if (event := _value(record))["kind"] == "scheduled"
        }
        eventually(
            lambda: scheduled.keys() <= self.predictions().keys(), within=_PATIENCE, what="all predictions"
        )
        predictions = self.predictions()
        assert predictions.keys() == scheduled.keys(), "there are predictions of what was not to be scored"
        for name, event in scheduled.items():
            _check(predictions[name], event)
        return f"{len(predictions)} predictions of the {len(scheduled)} scored among {events} events"

    @property
    def _at(self) -> tuple[str, str]:
        return "--bootstrap", self._bootstrap

    def _read(self, topic: str) -> list[list[Record]]:
        return Cluster(self._bootstrap, session_ms=6000).read(topic, pipeline.source.partitions)


def _check(prediction: Any, event: Any) -> None:
    said = {name: prediction[name] for name in ("key", "event_time", "label_key", "degraded")}
    wanted = {
        "key": event["origin"],
        "event_time": event["time"],
        "label_key": event["flight_id"],
        "degraded": None,
    }
    assert said == wanted, f"{prediction} answers {event}"
    late = prediction["outputs"]["late"]
    assert math.isfinite(late), prediction
    assert 0 < late < 1, prediction


def _value(record: Record) -> Any:
    assert record.value is not None
    return json.loads(record.value)

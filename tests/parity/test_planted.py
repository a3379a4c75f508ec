"""What parity has to find: predictions that were altered, lost, made up, or made by other features."""

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from features.decode import RecordDecoder
from features.logged import rows_of
from features.rows import Rows
from pipelines import catalog
from pipelines.pipeline import Pipeline
from tests.features import placed
from tests.parity.recordings import USERS, Recording, recording
from tests.parity.topics import publish
from tests.workers import anyones
from tests.workers.anyones import run
from tests.workers.topics_seen import read_all, wait_for
from workers.brokers import EmbeddedBroker
from workers.cli import headrace
from workers.predictions import LoggedFeatures, PredictionEncoder, PredictionForm
from workers.processes import WorkerProcess, parity_report
from workers.topics import Topics, topic_specs

Record = dict[str, Any]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    found = recording(USERS, tmp_path_factory.mktemp("pipeline"))
    return dataclasses.replace(found, events=found.events.slice(0, 2000))


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Each test has its own: a client that sees a topic come again under its name may crash (librdkafka, issue 4964)."""
    with EmbeddedBroker() as broker:
        yield broker


def predictions(pipeline: Pipeline, events: Any, share: float) -> Iterator[tuple[int, Record]]:
    """Partition and record of every prediction that a worker would publish."""
    source = pipeline.source
    form = PredictionForm(
        pipeline=pipeline.name, topic=source.topic, model="m", version="1", key=source.schema.key, label_key=None,
        outputs={"risk": 0}, logged=LoggedFeatures.of(pipeline.engine, share),
    )  # fmt: skip
    encoder, decoder = PredictionEncoder(form), RecordDecoder(source.schema)
    for number, records in placed.logs(events, source.schema, source.partitions):
        columns = decoder.decode(records).columns
        rows: Rows = pipeline.engine.new_partition().process(columns)
        answers = {"risk": np.full(len(rows), 0.5, np.float32)}
        encoded = encoder.encode(number, records.offsets.copy(), columns, rows, answers)
        assert not encoded.failed
        for value in encoded.values:
            yield number, msgspec.json.decode(value or b"")


def checked(
    machines: Recording, broker: EmbeddedBroker, found: list[tuple[int, Record]]
) -> tuple[Record, str]:
    """What parity says of these predictions beside the recorded events, as JSON and for people."""
    prepare(machines, broker)
    publish_predictions(broker.bootstrap, machines.pipeline.predictions, found)
    command = ["parity", machines.reference, "--bootstrap", broker.bootstrap]
    as_json, as_text = (CliRunner().invoke(headrace, [*command, *flags]) for flags in (["--json"], []))
    report: Record = json.loads(as_json.stdout)
    is_good = not any(report[name] for name in ("mismatches", "missing", "extra", "contradicting"))
    assert as_json.exit_code == as_text.exit_code == int(not is_good)
    return report, as_text.stdout


def prepare(machines: Recording, broker: EmbeddedBroker) -> None:
    """Topics with the recorded events, and no prediction."""
    pipeline = machines.pipeline
    Topics({"bootstrap.servers": broker.bootstrap}).create(topic_specs(pipeline))
    publish(broker.bootstrap, pipeline.source.topic, machines.events, pipeline.source.partitions)


def publish_predictions(bootstrap: str, topic: str, found: list[tuple[int, Record]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, record in found:
        producer.produce(topic, json.dumps(record), partition=partition)
        producer.poll(0)
    assert producer.flush(30) == 0


def place(found: list[tuple[int, Record]], at: int) -> tuple[int, int]:
    source = found[at][1]["source"]
    return source["partition"], source["offset"]


def redigest(pipeline: Pipeline, record: Record) -> None:
    record["features_digest"] = f"{rows_of(pipeline.engine, [record['features']]).digests()[0]:016x}"


def test_what_was_not_altered_agrees_in_every_feature(machines: Recording, broker: EmbeddedBroker) -> None:
    found = list(predictions(machines.pipeline, machines.events, 1))
    report, said = checked(machines, broker, found)
    assert (report["rows"], report["first"]) == (len(found), None)
    engine = machines.pipeline.engine
    assert set(report["features"]) == {*engine.float_columns, *engine.category_columns}
    assert all(each == {"rows": len(found), "mismatches": 0} for each in report["features"].values())
    assert said.startswith(f"{len(found)} rows of {len(report['features'])} features compared, 0 mismatches")


def test_an_altered_value_is_named_with_both_values_and_the_events_behind_it(
    machines: Recording, broker: EmbeddedBroker
) -> None:
    found = list(predictions(machines.pipeline, machines.events, 1))
    for at in (300, 500):
        found[at][1]["features"]["machine.n_5m"] += 1
        redigest(machines.pipeline, found[at][1])
    report, said = checked(machines, broker, found)
    assert report["mismatched_at"] == sorted(map(list, (place(found, 500), place(found, 300))))
    counts = {name: each["mismatches"] for name, each in report["features"].items() if each["mismatches"]}
    first = report["first"]
    assert counts == {"machine.n_5m": 2}
    assert [first["partition"], first["offset"]] == report["mismatched_at"][0]
    (count,) = first["differences"]
    assert count["online"]["number"] == count["recomputed"]["number"] + 1
    (evidence,) = first["evidence"]
    assert evidence["entity"] == {"machine": first["key"]}
    assert evidence["counting"]["machine.n_5m"] == count["recomputed"]["number"]
    assert {event["fields"]["machine"] for event in evidence["events"]} == {first["key"]}
    source = machines.pipeline.source.topic
    assert f"first: {source}[{first['partition']}]@{first['offset']}, key {first['key']!r}" in said
    assert f"{count['online']['number']}  " in said
    assert f"behind machine.n_5m, read as of {evidence['now']}" in said


def test_a_wrong_digest_without_values_shows_both_digests_and_what_it_should_be(
    machines: Recording, broker: EmbeddedBroker
) -> None:
    found = list(predictions(machines.pipeline, machines.events, 0))
    assert "features" not in found[7][1]
    was = found[7][1]["features_digest"]
    found[7][1]["features_digest"] = "00000000deadbeef"
    report, said = checked(machines, broker, found)
    first = report["first"]
    assert report["mismatched_at"] == [list(place(found, 7))]
    assert (first["online_digest"], first["recomputed_digest"]) == ("00000000deadbeef", was)
    assert first["is_logged"] is False
    engine = machines.pipeline.engine
    assert len(first["differences"]) == len(engine.float_columns) + len(engine.category_columns)
    assert {each["rows"] for each in report["features"].values()} == {len(found) - 1}
    assert "a worker with --log-features 1 publishes them" in said
    assert "not there" not in said
    (evidence,) = [each for each in first["evidence"] if each["entity"] == {"machine": first["key"]}]
    assert evidence["events"][-1]["offset"] == first["offset"]
    assert "events since it began; taking part:" in said


def test_a_value_that_is_not_that_of_its_digest_contradicts(
    machines: Recording, broker: EmbeddedBroker
) -> None:
    found = list(predictions(machines.pipeline, machines.events, 1))
    found[3][1]["features"]["machine.n_2h"] = "0x80000000"
    report, said = checked(machines, broker, found)
    assert (report["mismatches"], report["contradicting_at"]) == (0, [list(place(found, 3))])
    (difference,) = report["first"]["differences"]
    assert difference["column"] == "machine.n_2h"
    assert difference["online"]["bits"] == "0x80000000"
    assert "1 contradict" in said


def test_a_lost_and_a_made_up_prediction_are_told_apart(machines: Recording, broker: EmbeddedBroker) -> None:
    found = list(predictions(machines.pipeline, machines.events, 0.5))
    partition, lost = found.pop(11)
    made_up = json.loads(json.dumps(found[20][1]))
    made_up["source"]["offset"] += 100_000
    report, _ = checked(machines, broker, [*found, (partition, made_up)])
    assert report["missing_at"] == [[partition, lost["source"]["offset"]]]
    assert report["extra_at"] == [[made_up["source"]["partition"], made_up["source"]["offset"]]]
    assert report["mismatches"] == 0


def test_a_worker_with_other_features_of_the_same_names_is_found_out(
    machines: Recording, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """It ran with an older file: a window of 5 minutes was one of 4, and hot began at 60."""
    text = anyones.PIPELINE.replace(
        "timedelta(minutes=5), timedelta(hours=2)], n=count(), heat",
        "WINDOW, timedelta(hours=2)], n=count(), heat",
    )
    text = text.replace(
        "schema = Schema", "WINDOW = Window(timedelta(minutes=5), timedelta(minutes=5))\nschema = Schema"
    )
    text = text.replace("from features.schema", "from features.windows import Window\nfrom features.schema")
    text = text.replace('col("heat") > 50))', 'col("heat") > 56))', 1)
    (tmp_path / "machines.py").write_text(text)
    old = catalog.load(str(tmp_path / "machines.py"))
    assert old.engine.float_columns == machines.pipeline.engine.float_columns
    assert old.engine.column_fingerprint != machines.pipeline.engine.column_fingerprint
    anyones.write_model(tmp_path / "stops.onnx")
    at = ("--bootstrap", broker.bootstrap)
    pipeline = machines.pipeline
    prepare(machines, broker)
    run(tmp_path, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    ours, theirs = (dict_of(predictions(each, machines.events, 1)) for each in (pipeline, old))
    flags = (
        "--registry",
        str(tmp_path / "registry"),
        "--log-features",
        "1",
        "--group",
        f"old-{time.time_ns()}",
    )
    with WorkerProcess(str(tmp_path / "machines.py"), *at, *flags, "--kafka", "session.timeout.ms=6000"):
        wait_for(
            lambda: len(read_all(broker.bootstrap, pipeline.predictions, 2)) >= len(ours),
            "predictions",
        )
    report = parity_report(machines.reference, broker.bootstrap)
    wrong = sorted(at for at, values in ours.items() if values != theirs[at])
    assert report["mismatched_at"][:10] == [list(at) for at in wrong[:10]]
    assert report["mismatches"] == len(wrong) > 100
    for name, each in report["features"].items():
        assert each == {
            "rows": len(ours),
            "mismatches": sum(ours[at][name] != theirs[at][name] for at in ours),
        }
    assert {name for name, each in report["features"].items() if each["mismatches"]} == {
        "machine.n_5m", "machine.heat_5m", "machine.hot_5m", "machine.hot_2h",
    }  # fmt: skip
    first = report["first"]
    at_first = first["partition"], first["offset"]
    assert at_first == wrong[0]
    for each in first["differences"]:
        assert each["online"]["number"] == theirs[at_first][each["column"]]
        assert each["recomputed"]["number"] == ours[at_first][each["column"]]


def dict_of(found: Iterator[tuple[int, Record]]) -> dict[tuple[int, int], Record]:
    return {(partition, record["source"]["offset"]): record["features"] for partition, record in found}

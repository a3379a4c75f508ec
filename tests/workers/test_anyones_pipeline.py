import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.workers import anyones
from tests.workers.anyones import run
from tests.workers.topics_seen import produce, read_all, wait_for
from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.processes import WorkerProcess

TOPIC, PREDICTIONS, LETTERS = "machine-events", "machines.predictions", "machines.dead-letters"
EVENTS = anyones.events(6000)
BAD = {
    "invalid_json": (b"1", b"{" + b" " * 999_000),
    "tombstone": (b"1", None),
    "missing_field": (b"1", b'{"machine":{"number":1},"at":"2024-03-09T16:00:00Z"}'),
    "wrong_type": (b"1", b'{"machine":{"number":"one"},"at":"2024-03-09T16:00:00Z","what":"reading"}'),
    "unusable_time": (b"1", b'{"machine":{"number":1},"at":"soon","what":"reading"}'),
    "time_ahead": (b"1", b'{"machine":{"number":1},"at":"2999-01-01T00:00:00Z","what":"reading"}'),
    "key_mismatch": (b"2", b'{"machine":{"number":1},"at":"2024-03-09T16:00:00Z","what":"reading"}'),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    anyones.write_folder(tmp_path)
    anyones.write_model(tmp_path / "stops.onnx")
    (tmp_path / "first.jsonl").write_text(anyones.json_lines(EVENTS[:4000]))
    (tmp_path / "second.jsonl").write_text(anyones.json_lines(EVENTS[4000:]))
    return tmp_path


def fresh(bootstrap: str) -> None:
    """Topics of an earlier test on the same broker are gone."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = {TOPIC, PREDICTIONS, LETTERS} & set(admin.list_topics(timeout=10).topics)
    for future in (admin.delete_topics(list(names)) if names else {}).values():
        future.result(30)
    wait_for(
        lambda: not {TOPIC, PREDICTIONS, LETTERS} & set(admin.list_topics(timeout=10).topics), "topics to go"
    )


def scored(count: int) -> int:
    return sum(event["what"] == "reading" for event in EVENTS[:count])


def test_check_worker_replay_and_parity_on_it(folder: Path, broker: EmbeddedBroker | KafkaBroker) -> None:
    """The whole life of a pipeline that Headrace has never seen, over a stop and a start."""
    at = ("--bootstrap", broker.bootstrap)
    is_real = isinstance(broker, KafkaBroker)
    group = ("--group", f"machines-{time.time_ns()}", "--kafka", "session.timeout.ms=6000")
    fresh(broker.bootstrap)
    assert "not there yet" in run(folder, "check", "machines.py", *at)
    assert "is stops:1" in run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    assert "created" in run(folder, "topics", "machines.py", "--create", *at)
    assert "gives its known answer" in run(folder, "check", "machines.py", "--strict", *at)
    run(folder, "publish", "machines.py", "--from", "first.jsonl", *at)
    delivery = ("--delivery", "exactly_once") if is_real else ()
    with WorkerProcess(
        str(folder / "machines.py"), "--registry", str(folder / "registry"), *at, *group, *delivery
    ) as worker:
        wait_for(
            lambda: len(read_all(broker.bootstrap, PREDICTIONS, 2)) >= scored(4000), "the first predictions"
        )
        trace = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("mine", b"x")]
        produce(broker.bootstrap, TOPIC, *BAD.values(), headers=trace)
        wait_for(lambda: len(read_all(broker.bootstrap, LETTERS, 2)) >= len(BAD), "the dead letters")
        began = time.monotonic()
        os.kill(worker.pid, signal.SIGTERM)
        wait_for(lambda: worker._process.poll() is not None, "the worker to leave")
        assert time.monotonic() - began < 5
    assert worker.exit_code == 0, worker.last_words()
    run(folder, "publish", "machines.py", "--from", "second.jsonl", *at)
    with WorkerProcess(
        str(folder / "machines.py"), "--registry", str(folder / "registry"), *at, *group, *delivery
    ):
        wait_for(
            lambda: len(read_all(broker.bootstrap, PREDICTIONS, 2)) >= scored(6000), "the other predictions"
        )
    check_predictions(broker.bootstrap)
    check_letters(broker.bootstrap)
    lines = run(
        folder, "tail", "machines.py", "--dead-letters", "--from-beginning", "--limit", str(len(BAD)), *at
    )
    assert sorted(json.loads(line)["reason"] for line in lines.splitlines()) == sorted(BAD)
    report = json.loads(run(folder, "parity", "machines.py", "--json", *at))
    assert (report["rows"], report["mismatches"], report["missing"], report["extra"]) == (
        scored(6000),
        0,
        0,
        0,
    )
    run(folder, "replay", "machines.py", "--to", "rows.parquet", *at)
    rows = pq.read_table(folder / "rows.parquet")
    assert len(rows) == scored(6000)
    assert set(rows["label"].to_pylist()) <= {0.0, 1.0, None}
    (folder / "all.jsonl").write_text(anyones.json_lines(EVENTS))
    for workers in ("1", "2"):
        to = ("--to", "offline.parquet", "--workers", workers)
        run(folder, "replay", "machines.py", "--from", "all.jsonl", *to)
        offline = pq.read_table(folder / "offline.parquet")
        for column in ("partition", "key", "features_digest"):
            assert offline[column].to_pylist() == rows[column].to_pylist()


def check_predictions(bootstrap: str) -> None:
    messages = read_all(bootstrap, PREDICTIONS, 2)
    assert len(messages) == scored(6000)
    predictions = [json.loads(message.value()) for message in messages]
    assert len({prediction["id"] for prediction in predictions}) == len(predictions)
    for message, prediction in zip(messages, predictions, strict=True):
        assert message.key() == str(prediction["key"]).encode()
        assert message.partition() == prediction["source"]["partition"]
        assert dict(message.headers())["headrace.event_time"] == str(prediction["event_time"]).encode()
        assert set(prediction["outputs"]) == {"risk", "parts"}
        assert 0 < prediction["outputs"]["risk"] <= 1
        assert (prediction["model"], prediction["model_version"], prediction["degraded"]) == (
            "stops",
            "1",
            None,
        )


def check_letters(bootstrap: str) -> None:
    letters = read_all(bootstrap, LETTERS, 2)
    by_reason = {dict(message.headers())["headrace.reason"].decode(): message for message in letters}
    assert sorted(dict(message.headers())["headrace.reason"].decode() for message in letters) == sorted(BAD)
    for reason, (key, value) in BAD.items():
        message = by_reason[reason]
        headers = {name: content.decode() for name, content in message.headers()}
        assert message.key() == key
        assert message.value() == value
        assert "headrace.truncated" not in headers
        assert headers["mine"] == "x"
        assert headers["headrace.stage"] == "decode"
        assert headers["headrace.pipeline"] == "machines"
        assert headers["headrace.source"].startswith(f"{TOPIC}:")
        assert headers["headrace.attempts"] == "1"


def test_a_trace_goes_on_in_the_prediction(folder: Path, embedded_broker: EmbeddedBroker) -> None:
    at = ("--bootstrap", embedded_broker.bootstrap)
    fresh(embedded_broker.bootstrap)
    run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    run(folder, "topics", "machines.py", "--create", *at)
    trace = [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("mine", b"x")]
    readings = [
        record
        for event, record in zip(EVENTS, anyones.keyed(EVENTS), strict=True)
        if event["what"] == "reading"
    ]
    produce(embedded_broker.bootstrap, TOPIC, readings[0], headers=trace)
    with WorkerProcess(
        str(folder / "machines.py"),
        "--registry",
        str(folder / "registry"),
        *at,
        "--kafka",
        "session.timeout.ms=6000",
    ):
        wait_for(lambda: len(read_all(embedded_broker.bootstrap, PREDICTIONS, 2)) == 1, "the prediction")
    (message,) = read_all(embedded_broker.bootstrap, PREDICTIONS, 2)
    assert [name for name, _ in message.headers()] == ["headrace.event_time", "traceparent"]


def test_a_new_pipeline_is_written_from_a_sample_and_passes_check(
    folder: Path, embedded_broker: EmbeddedBroker
) -> None:
    said = run(folder, "new", "sampled", "--sample", "first.jsonl")
    assert "written from 4000 events" in said
    assert "failed" not in run(folder, "check", "sampled.py", "--bootstrap", embedded_broker.bootstrap)
    assert "is there already" in run(folder, "new", "sampled", "--sample", "first.jsonl", code=1)
    rows = run(folder, "replay", "sampled.py", "--from", "first.jsonl", "--to", "rows.parquet")
    assert rows.startswith("4000 rows written")


def test_what_does_not_agree_is_refused_before_the_first_record(
    folder: Path, embedded_broker: EmbeddedBroker
) -> None:
    at = ("--bootstrap", embedded_broker.bootstrap)
    fresh(embedded_broker.bootstrap)
    worker = ("worker", "machines.py", "--admin-port", "0")
    assert "has no model 'stops'" in run(folder, *worker, *at, code=1)
    run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    assert "No broker answers at 127.0.0.1:1" in run(folder, *worker, "--bootstrap", "127.0.0.1:1", code=1)
    assert "Topic 'machine-events' (source of 'machines') is not there" in run(folder, *worker, *at, code=1)
    run(folder, "topics", "machines.py", "--create", *at)
    text = (folder / "machines.py").read_text()
    (folder / "wider.py").write_text(text.replace("partitions=2", "partitions=3"))
    assert "machine-events has 2 partitions and Source.partitions is 3" in run(
        folder, "check", "wider.py", *at
    )
    produce(embedded_broker.bootstrap, PREDICTIONS, (b"1", b'{"pipeline":"other"}'))
    assert "Topic 'machines.predictions' holds records of pipeline 'other'" in run(
        folder, *worker, *at, code=1
    )
    model = folder / "registry" / "stops" / "1" / "model.onnx"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1])
    assert "its manifest says" in run(folder, *worker, *at, code=1)
    model.write_bytes(whole)
    (folder / "machines.py").write_text(
        text.replace("timedelta(minutes=5), timedelta(hours=2)", "timedelta(minutes=6), timedelta(hours=2)")
    )
    assert "machine.n_6m" in run(folder, *worker, *at, code=1)
    (folder / "machines.py").write_text(text.replace('raw("heat")', 'raw("heatt")'))
    assert "There is no field 'heatt' in the schema; did you mean 'heat'?" in run(
        folder, *worker, *at, code=1
    )


@pytest.mark.kafka
@pytest.mark.parametrize("sink", ["predictions", "dead_letters"])
def test_an_empty_sink_that_a_running_worker_writes_to_is_refused(
    folder: Path, kafka_broker: KafkaBroker, sink: str
) -> None:
    at, end = ("--bootstrap", kafka_broker.bootstrap), time.time_ns()
    text = (folder / "machines.py").read_text()
    for name in ("first", "second"):
        named = text.replace('name="machines"', f'name="{name}-{end}", {sink}="shared-{end}"')
        (folder / f"{name}.py").write_text(named.replace('topic="machine-events"', f'topic="events-{end}"'))
        run(folder, "topics", f"{name}.py", "--create", *at)
    run(folder, "models", "register", "stops.onnx", "--pipeline", "first.py")
    with WorkerProcess(str(folder / "first.py"), "--registry", str(folder / "registry"), *at):
        said = run(folder, "worker", "second.py", "--admin-port", "0", *at, code=1)
    assert f"Topic 'shared-{end}' is written to by a worker of pipeline 'first-{end}'" in said
    assert f"{sink}=" in said


def test_a_flood_of_dead_letters_stops_the_worker_and_loses_nothing(
    folder: Path, embedded_broker: EmbeddedBroker
) -> None:
    at = ("--bootstrap", embedded_broker.bootstrap)
    fresh(embedded_broker.bootstrap)
    run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    run(folder, "topics", "machines.py", "--create", *at)
    produce(embedded_broker.bootstrap, TOPIC, *[(b"1", b"nonsense")] * 2500)
    said = run(
        folder, "worker", "machines.py", "--admin-port", "0", *at, "--kafka", "session.timeout.ms=6000",
        "--group", f"flood-{time.time_ns()}", code=1,
    )  # fmt: skip
    assert "dead letters follow one another" in said or "records are dead letters" in said
    assert "invalid_json" in said


def test_rows_that_the_model_gives_nothing_for_are_dead_letters_up_to_the_limit(
    folder: Path, embedded_broker: EmbeddedBroker
) -> None:
    at = ("--bootstrap", embedded_broker.bootstrap)
    fresh(embedded_broker.bootstrap)
    anyones.write_model(folder / "stops.onnx", minds_missing=False)
    text = (folder / "machines.py").read_text()
    (folder / "machines.py").write_text(text.replace("max_ratio=0.9", "max_ratio=1, max_run=100_000"))
    (folder / "strict.py").write_text(text.replace("max_ratio=0.9", "max_ratio=0.1, window=200"))
    run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    run(folder, "topics", "machines.py", "--create", *at)
    run(folder, "publish", "machines.py", "--from", "first.jsonl", *at)
    flags = (*at, "--kafka", "session.timeout.ms=6000", "--group", f"nan-{time.time_ns()}")
    with WorkerProcess(str(folder / "machines.py"), "--registry", str(folder / "registry"), *flags):
        wait_for(
            lambda: (
                scored(4000)
                == len(read_all(embedded_broker.bootstrap, PREDICTIONS, 2))
                + len(read_all(embedded_broker.bootstrap, LETTERS, 2))
            ),
            "an answer or a letter for every scored event",
        )
    letters = read_all(embedded_broker.bootstrap, LETTERS, 2)
    assert {dict(message.headers())["headrace.reason"] for message in letters} == {b"output_not_finite"}
    assert f"{len(letters)} dead letters instead" in run(folder, "parity", "machines.py", *at)
    flags = (*at, "--kafka", "session.timeout.ms=6000", "--group", f"nan-{time.time_ns()}")
    said = run(folder, "worker", "strict.py", "--admin-port", "0", *flags, code=1)
    assert "of the last 200 rows are dead letters (output_not_finite" in said


def test_what_replay_can_not_use_is_said(folder: Path) -> None:
    events = [json.dumps(event, ensure_ascii=False) for event in EVENTS[:3]]
    (folder / "array.json").write_text(f"[{', '.join(events)}, {{}}]")
    said = run(folder, "replay", "machines.py", "--from", "array.json", "--to", "rows.parquet")
    assert f"{scored(3)} rows written" in said
    assert "1 records could not be used (missing_field: 1)" in said


def test_a_wrong_fingerprint_names_both(folder: Path) -> None:
    run(folder, "models", "register", "stops.onnx", "--pipeline", "machines.py")
    text = (folder / "machines.py").read_text()
    (folder / "machines.py").write_text(text.replace('where=col("heat") > 50)', 'where=col("heat") > 51)'))
    said = run(folder, "check", "machines.py", code=1)
    assert "fingerprint" in said
    assert "train the model again" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["worker"],
        ["publish", "machines.py", "--rate", "x"],
        ["nope"],
        ["publish", "machines.py", "--rate", "1", "--speedup", "1", "--from", "first.jsonl"],
    ],
)
def test_misuse_exits_with_2(folder: Path, arguments: list[str]) -> None:
    run(folder, *arguments, code=2)


def test_a_folder_without_anything_else_is_enough(folder: Path) -> None:
    shutil.rmtree(folder / "features")
    shutil.rmtree(folder / "models")
    assert "ok" in run(folder, "check", "machines.py", "--bootstrap", "127.0.0.1:1")


@pytest.mark.parametrize(
    "tool",
    [
        ("publish", "machines.py", "--from", "first.jsonl"),
        ("replay", "machines.py", "--to", "rows.parquet"),
        ("parity", "machines.py"),
        ("tail", "machines.py", "--limit", "1"),
    ],
)
def test_a_tool_says_when_no_broker_answers(folder: Path, tool: tuple[str, ...]) -> None:
    began = time.monotonic()
    assert "127.0.0.1:1" in run(folder, *tool, "--bootstrap", "127.0.0.1:1", code=1)
    assert time.monotonic() - began < 40


def test_a_taken_port_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        where = ("--admin-host", "127.0.0.1", "--admin-port", port)
        said = run(folder, "worker", "machines.py", *where, code=1)
    assert f"admin_port {port} of 127.0.0.1 can't be listened on" in said

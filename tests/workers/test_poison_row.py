"""A row at which a real model fails, alone in its batch and among others."""

import json
from pathlib import Path

import numpy as np
import onnx
from confluent_kafka import Message
from onnx import TensorProto, helper, numpy_helper

from tests.workers import anyones
from tests.workers.anyones import run
from tests.workers.letters_there import fresh_pipeline
from tests.workers.topics_seen import produce, read_all, wait_for
from workers.brokers import EmbeddedBroker
from workers.processes import WorkerProcess

POISON = 2e9


def write_fragile_model(path: Path) -> None:
    """It looks its answer up in a table, past whose end it looks where the first column is over 1e9."""
    nodes = [
        helper.make_node("Gather", ["x", "first"], ["column"], axis=1),
        helper.make_node("Greater", ["column", "most"], ["over"]),
        helper.make_node("Cast", ["over"], ["place"], to=TensorProto.INT64),
        helper.make_node("Gather", ["answers", "place"], ["risk"]),
    ]
    graph = helper.make_graph(
        nodes,
        "stops",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", anyones.FLOATS])],
        [helper.make_tensor_value_info("risk", TensorProto.FLOAT, ["rows", 1])],
        [
            numpy_helper.from_array(np.array([0]), "first"),
            numpy_helper.from_array(np.float32(1e9), "most"),
            numpy_helper.from_array(np.array([0.5], np.float32), "answers"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def reading(number: int, heat: float) -> tuple[bytes, bytes]:
    event = {"machine": {"number": number}, "at": "2024-03-09T16:00:00Z", "what": "reading", "heat": heat}
    return str(number).encode(), json.dumps(event).encode()


def test_a_row_at_which_a_model_fails_is_a_dead_letter_also_alone(
    tmp_path: Path, embedded_broker: EmbeddedBroker
) -> None:
    bootstrap = embedded_broker.bootstrap
    path, pipeline = fresh_pipeline(tmp_path, bootstrap)
    write_fragile_model(tmp_path / "stops.onnx")
    run(tmp_path, "models", "register", "stops.onnx", "--pipeline", path.name)
    flags = (
        "--registry",
        str(tmp_path / "registry"),
        "--bootstrap",
        bootstrap,
        "--kafka",
        "session.timeout.ms=6000",
    )

    def seen(topic: str) -> list[Message]:
        return read_all(bootstrap, topic, 2)

    with WorkerProcess(str(path), *flags) as worker:
        produce(bootstrap, pipeline.source.topic, reading(1, POISON))
        wait_for(lambda: len(seen(pipeline.dead_letters)) == 1, "the letter of a row alone")
        mixed = [reading(number % 7, POISON if number % 10 == 3 else 20.0) for number in range(100)]
        produce(bootstrap, pipeline.source.topic, *mixed)
        wait_for(lambda: len(seen(pipeline.predictions)) == 90, "the predictions")
        wait_for(lambda: len(seen(pipeline.dead_letters)) == 11, "the other letters")
        worker.check()
    for message in seen(pipeline.dead_letters):
        headers = dict(message.headers())
        assert (headers["headrace.stage"], headers["headrace.reason"]) == (b"infer", b"model_failed")
        assert b"out of data bounds" in headers["headrace.error"]
        assert json.loads(message.value())["heat"] == POISON
    report = run(tmp_path, "parity", path.name, "--bootstrap", bootstrap)
    assert "90 rows" in report
    assert "11 dead letters instead" in report

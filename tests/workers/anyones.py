"""A pipeline of somebody else: other fields, key and features than flights, in a folder of their own."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workers.processes import headrace

PIPELINE = '''
"""Which machine will stop soon?"""

from datetime import timedelta

from features.expressions import col
from features.featureset import FeatureSet, over
from features.kinds import category, count, last, last_category, mean, ratio, raw, seconds_since_last, sum_, time_part
from features.schema import EventTime, Field, Schema
from models.labels import Labels
from pipelines.pipeline import DeadLetterRule, Pipeline, Source

schema = Schema(
    fields=[
        Field(name="machine", type=int, path="machine.number"),
        Field(name="at", type=str),
        Field(name="what", type=str),
        Field(name="heat", type=float, optional=True),
        Field(name="ok", type=bool, optional=True),
        Field(name="hall", type=str, path="machine.hall", optional=True),
        Field(name="case", type=str, optional=True),
    ],
    key="machine",
    time=EventTime(field="at", unit="iso8601", max_late=timedelta(seconds=30)),
)
pipeline = Pipeline(
    name="machines",
    source=Source(topic="machine-events", schema=schema, partitions=2),
    features=[
        FeatureSet(features={"heat": raw("heat"), "hour": time_part("hour", "Asia/Tokyo"), "hall": category("hall")}),
        FeatureSet(
            key="machine",
            ttl=timedelta(days=2),
            features={
                **over([timedelta(minutes=5), timedelta(hours=2)], n=count(), heat=mean("heat"), hot=sum_("heat", where=col("heat") > 50)),
                **over([timedelta(hours=2)], bad=ratio(~col("ok"))),
                "last": last("heat"),
                "hall": last_category("hall"),
                "since": seconds_since_last(where=col("what") == "stop"),
            },
        ),
        FeatureSet(key=("machine", "hall"), features=over([timedelta(minutes=5)], n=count(where=col("ok"))), include_current=True),
    ],
    score_when=col("what") == "reading",
    model="stops",
    labels=Labels(key="case", when=col("what") == "stop", value=col("heat") > 50, horizon=timedelta(minutes=10), without="negative"),
    dead_letter_rule=DeadLetterRule(max_ratio=0.9),
)
'''
FLOATS = 12


def write_folder(folder: Path) -> Path:
    """The pipeline in a folder that has packages called like Headrace's; returns its file."""
    for name in ("features", "models"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    (folder / "machines.py").write_text(PIPELINE)
    return folder / "machines.py"


def events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Mostly forward in time; some a little late, some too late, some at equal times."""
    made, now = random.Random(seed), 1_710_000_000_000
    found = []
    for i in range(count):
        now += made.choice([0, 10, 400, 2500])
        at = now - made.choice([0, 0, 0, 0, 5_000, 90_000])
        number = made.randrange(20)
        event = {
            "machine": {"number": number, "hall": made.choice(["a", "größe", None])},
            "at": np.datetime_as_string(np.datetime64(at, "ms")) + made.choice(["Z", "+00:00"]),
            "what": made.choice(["reading", "reading", "start", "stop"]),
            "heat": made.choice([None, 20, 55.5, 61.25]),
            "ok": made.choice([True, False, None]),
            "case": f"case-{number}-{i // 50}",
            "extra": {"deep": [1, 2]},
        }
        found.append({name: value for name, value in event.items() if value is not None})
    return found


def json_lines(found: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in found)


def write_model(path: Path, floats: int = FLOATS, *, minds_missing: bool = True) -> Path:
    """A tiny ONNX file: a sigmoid of a sum, and two parts of it; NaN where a feature is missing unless it minds that."""
    weights = np.linspace(-0.01, 0.02, floats * 2, dtype=np.float32).reshape(floats, 2)
    nodes = [
        helper.make_node("IsNaN", ["x"], ["missing"]),
        helper.make_node("Where", ["missing", "zero", "x"], ["known"]),
        helper.make_node("MatMul", ["known" if minds_missing else "x", "weights"], ["parts"]),
        helper.make_node("ReduceSum", ["parts", "axis"], ["total"], keepdims=1),
        helper.make_node("Sigmoid", ["total"], ["risk"]),
    ]
    graph = helper.make_graph(
        nodes,
        "stops",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", floats])],
        [
            helper.make_tensor_value_info("risk", TensorProto.FLOAT, ["rows", 1]),
            helper.make_tensor_value_info("parts", TensorProto.FLOAT, ["rows", 2]),
        ],
        [
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(np.float32(0), "zero"),
            numpy_helper.from_array(np.array([1]), "axis"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run ``headrace`` in the folder; returns what it said."""
    done = subprocess.run(
        headrace(*arguments), cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said


def keyed(found: list[dict[str, Any]]) -> Iterator[tuple[bytes, bytes]]:
    """Kafka keys and values."""
    for event in found:
        yield str(event["machine"]["number"]).encode(), json.dumps(event, ensure_ascii=False).encode()

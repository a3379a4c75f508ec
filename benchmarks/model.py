"""The model that every contender runs: a small perceptron, made up from a seed, as ONNX."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from models.foreign import Wiring, foreign_manifest
from models.manifest import Stamp
from models.registry import MODEL_FILE, Registry
from pipelines.pipeline import Pipeline

INPUT, OUTPUT = "features", "score"

_HIDDEN = (64, 32)
_CREATED = datetime(2024, 1, 1, tzinfo=UTC)
_TYPICAL = (50, 12, 1, 1, 4, 50, 50, 200, 50, 50, 50, 30_000)
"""About how large each feature is; first weights are divided by it, so that scores spread over (0, 1)."""


def perceptron(typical: Sequence[float], seed: int = 7) -> bytes:
    """``(rows, len(typical)) float32`` to ``(rows, 1) float32`` through two hidden layers."""
    random = np.random.default_rng(seed)
    columns = len(typical)
    widths = (columns, *_HIDDEN, 1)
    nodes, weights, at = [], [], INPUT
    for layer, (into, out) in enumerate(pairwise(widths)):
        scale = np.sqrt(2 / into) / (np.array(typical)[:, None] if layer == 0 else 1.0)
        matrix = (random.standard_normal((into, out)) * scale).astype(np.float32)
        bias = (random.standard_normal(out) * 0.1).astype(np.float32)
        weights += [
            numpy_helper.from_array(matrix, f"w{layer}"),
            numpy_helper.from_array(bias, f"b{layer}"),
        ]
        is_last = layer == len(widths) - 2
        nodes += [
            helper.make_node("Gemm", [at, f"w{layer}", f"b{layer}"], [f"z{layer}"]),
            helper.make_node(
                "Sigmoid" if is_last else "Relu", [f"z{layer}"], [OUTPUT if is_last else f"h{layer}"]
            ),
        ]
        at = f"h{layer}"
    graph = helper.make_graph(
        nodes,
        "card_fraud",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["rows", columns])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["rows", 1])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def register(pipeline: Pipeline, root: Path) -> Path:
    """Put the model into a new registry; the path of its file."""
    data, engine = perceptron(_TYPICAL), pipeline.engine
    manifest = foreign_manifest(data, engine, Wiring(), Stamp(name=pipeline.model, created=_CREATED))
    ref = Registry.at(str(root)).register(data, manifest)
    return root / ref.name / str(ref.version) / MODEL_FILE

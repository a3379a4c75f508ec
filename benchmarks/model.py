"""The model that every contender runs: a small perceptron, made up from a seed, as ONNX."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.binding import Binding
from models.foreign import Wiring, foreign_manifest
from models.manifest import Stamp
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from models.registry import MODEL_FILE, Registry
from models.tensor import Array
from models.vocabulary import Vocabulary
from pipelines.pipeline import Pipeline

INPUT, OUTPUT = "features", "score"

_HIDDEN = (64, 32)
_SMALLEST = 1e-3
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


def register(
    pipeline: Pipeline,
    root: Path,
    typical: Sequence[float] = _TYPICAL,
    vocabularies: Mapping[str, Vocabulary] | None = None,
) -> Path:
    """Put the model into a registry; the path of its file.

    Args:
        pipeline: Whose columns it takes: the floats, then the categories as codes.
        root: Of the registry.
        typical: About how large each of them is.
        vocabularies: By category column, its codes.
    """
    wiring = Wiring(vocabularies=vocabularies or {})
    data, stamp = perceptron(typical), Stamp(name=pipeline.model, created=_CREATED)
    ref = Registry.at(str(root)).register(data, foreign_manifest(data, pipeline.engine, wiring, stamp))
    return root / ref.name / str(ref.version) / MODEL_FILE


def register_fitted(pipeline: Pipeline, root: Path, rows: pa.Table) -> Path:
    """The same, with sizes and vocabularies as in these rows of `pipelines.replay.replay`."""
    floats, categories = _columns(pipeline, rows)
    vocabularies = {
        name: Vocabulary.learn(column)
        for name, column in zip(pipeline.engine.category_columns, categories, strict=True)
    }
    sizes = [float(np.abs(column).mean()) for column in floats]
    codes = [len(vocabulary) / 2 for vocabulary in vocabularies.values()]
    return register(pipeline, root, [max(size, _SMALLEST) for size in (*sizes, *codes)], vocabularies)


def scores(pipeline: Pipeline, root: Path, rows: pa.Table) -> NDArray[np.float64]:
    """``(rows,)`` what the registered model says of rows of `pipelines.replay.replay`."""
    registry = Registry.at(str(root))
    manifest, runtime = registry.manifest(pipeline.model), OnnxRuntime.load(registry.load(pipeline.model))
    floats, categories = _columns(pipeline, rows)
    block = np.ascontiguousarray(np.array(floats, np.float32).reshape(len(floats), len(rows)).T)
    ids = np.ascontiguousarray(np.array(categories, np.int64).reshape(len(categories), len(rows)).T)
    model = Model(manifest, Binding(manifest, pipeline.engine), runtime, BatchRule().buckets)
    return model.predict(block, ids)[OUTPUT].astype(np.float64).reshape(-1)


def _columns(pipeline: Pipeline, rows: pa.Table) -> tuple[list[Array], list[Array]]:
    engine = pipeline.engine
    floats, categories = (
        [rows[name].to_numpy() for name in names] for names in (engine.float_columns, engine.category_columns)
    )
    return floats, categories

"""Tiny ONNX files for tests, written with onnx.helper."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from models.tensor import Array, aligned

FLOAT, INT64, DOUBLE, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL

Info = Any
Node = Any


def as_input(array: Array) -> Array:
    """A copy that lies in memory as a worker's inputs do."""
    copy = aligned(array.shape, array.dtype)
    copy[:] = array
    return copy


def info(name: str, kind: int, *shape: int | str | None) -> Info:
    return helper.make_tensor_value_info(name, kind, list(shape))


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Node:
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


def model(
    nodes: Sequence[Node],
    inputs: Sequence[Info],
    outputs: Sequence[Info],
    **weights: NDArray[Any],
) -> bytes:
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), initializers)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    proto: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return proto.SerializeToString()


def row_sums(width: int, name: str = "x", output: str = "score") -> bytes:
    """``score[i] = Σ (k + 1) · x[i, k]``."""
    weights = np.arange(1, width + 1, dtype=np.float32).reshape(-1, 1)
    return model(
        [node("MatMul", [name, "w"], [output])],
        [info(name, FLOAT, "rows", width)],
        [info(output, FLOAT, "rows", 1)],
        w=weights,
    )


def block_and_codes(floats: int, categories: int) -> bytes:
    """``score[i] = Σ block[i] + 100 · Σ codes[i]``."""
    return model(
        [
            node("Cast", ["codes"], ["as_float"], to=FLOAT),
            node("MatMul", ["block", "ones"], ["left"]),
            node("MatMul", ["as_float", "hundreds"], ["right"]),
            node("Add", ["left", "right"], ["sum"]),
            node("Squeeze", ["sum", "last"], ["score"]),
        ],
        [info("block", FLOAT, "rows", floats), info("codes", INT64, "rows", categories)],
        [info("score", FLOAT, "rows")],
        ones=np.ones((floats, 1), np.float32),
        hundreds=np.full((categories, 1), 100, np.float32),
        last=np.array([1]),
    )


def perceptron(widths: Sequence[int], seed: int, activation: str = "Relu") -> bytes:
    """Random dense layers of ``x``, a sigmoid at the end."""
    generator = np.random.default_rng(seed)
    nodes, weights, last = [], {}, "x"
    for layer, (inputs, units) in enumerate(itertools.pairwise(widths)):
        weights[f"w{layer}"] = (generator.standard_normal((inputs, units)) / np.sqrt(inputs)).astype(
            np.float32
        )
        weights[f"b{layer}"] = generator.standard_normal(units).astype(np.float32)
        nodes.append(node("Gemm", [last, f"w{layer}", f"b{layer}"], [f"sum{layer}"]))
        is_last = layer == len(widths) - 2
        last = "score" if is_last else f"act{layer}"
        nodes.append(node("Sigmoid" if is_last else activation, [f"sum{layer}"], [last]))
    return model(
        nodes, [info("x", FLOAT, "rows", widths[0])], [info("score", FLOAT, "rows", widths[-1])], **weights
    )


def elementwise(operator: str, width: int) -> bytes:
    """``score = operator(x)``; Eigen computes the last few numbers of a tensor with scalar code."""
    return model(
        [node(operator, ["x"], ["score"])],
        [info("x", FLOAT, "rows", width)],
        [info("score", FLOAT, "rows", width)],
    )


def row_means(width: int) -> bytes:
    """``score[i] = mean(x[i])``; how a mean is summed depends on the address of the row."""
    return model(
        [node("ReduceMean", ["x", "axes"], ["score"], keepdims=0)],
        [info("x", FLOAT, "rows", width)],
        [info("score", FLOAT, "rows")],
        axes=np.array([1]),
    )


def computed_weights(width: int, units: int) -> bytes:
    """A matrix product whose weights are computed: one row alone takes another kernel."""
    weights = np.random.default_rng(0).standard_normal((width, units)).astype(np.float32)
    return model(
        [
            node("ReduceMax", ["x"], ["peak"], keepdims=0),
            node("Mul", ["peak", "zero"], ["nothing"]),
            node("Add", ["w", "nothing"], ["computed"]),
            node("MatMul", ["x", "computed"], ["score"]),
        ],
        [info("x", FLOAT, "rows", width)],
        [info("score", FLOAT, "rows", units)],
        w=weights,
        zero=np.array(0, np.float32),
    )


def dynamically_quantised(width: int) -> bytes:
    """The scale of the inputs is that of the whole batch."""
    weights = np.random.default_rng(0).integers(-100, 100, (width, 1)).astype(np.int8)
    return model(
        [
            node("DynamicQuantizeLinear", ["x"], ["quantised", "scale", "zero"]),
            node("MatMulInteger", ["quantised", "w", "zero"], ["product"]),
            node("Cast", ["product"], ["as_float"], to=FLOAT),
            node("Mul", ["as_float", "scale"], ["score"]),
        ],
        [info("x", FLOAT, "rows", width)],
        [info("score", FLOAT, "rows", 1)],
        w=weights,
    )


def lookup(size: int) -> bytes:
    """``score[i] = 10 · codes[i, 0]``; a code beyond the table makes the runtime fail."""
    return model(
        [
            node("Gather", ["codes", "first"], ["code"], axis=1),
            node("Gather", ["table", "code"], ["score"]),
        ],
        [info("codes", INT64, "rows", 1)],
        [info("score", FLOAT, "rows")],
        table=np.arange(size, dtype=np.float32) * 10,
        first=np.array(0),
    )

"""Export: a fitted network as an ONNX file whose bytes are a function of the network alone.

torch's own exporter writes the graph, so that what torch computes is written down once, in the network.
It is deterministic; only what it says about itself and the machine (producer, stack traces, paths) is
taken out.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import torch

from models.training.network import Network

OPSET = 18
BLOCK, CODES = "block", "codes"


def export(network: Network, floats: int, categories: int, output: str) -> bytes:
    """The file: inputs ``block (rows, floats) float32``, ``codes (rows, categories) int64``; a probability a row."""
    rows = torch.export.Dim("rows", min=1)
    example = (torch.zeros(3, floats), torch.zeros(3, categories, dtype=torch.int64))
    with _quiet():
        program = torch.onnx.export(
            network,
            example,
            dynamo=True,
            dynamic_shapes=({0: rows}, {0: rows}),
            input_names=[BLOCK, CODES],
            output_names=[output],
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    return _stripped(program.model_proto)


def _stripped(model: onnx.ModelProto) -> bytes:
    """Without what the exporter says of itself, and without inputs that nothing reads."""
    graph = model.graph
    graph.name = "headrace"
    graph.ClearField("value_info")
    for field in ("producer_name", "producer_version", "doc_string", "metadata_props"):
        model.ClearField(field)
    for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    read = {name for node in graph.node for name in node.input}
    for unread in [each for each in graph.input if each.name not in read]:
        graph.input.remove(unread)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of torchvision, which is not needed, and that both inputs share their rows."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from features.errors import Malformed, Misdeclared
from models.onnx_runtime import OnnxRuntime
from models.runtime import Runtime
from models.tensor import Tensor
from tests.models import onnx_files
from tests.models.onnx_files import FLOAT, INT64, info, node


def test_it_says_what_the_model_takes_and_gives() -> None:
    runtime: Runtime = OnnxRuntime.load(onnx_files.block_and_codes(3, 2))
    assert list(runtime.inputs) == [
        Tensor(name="block", dtype="float32", shape=("rows", 3)),
        Tensor(name="codes", dtype="int64", shape=("rows", 2)),
    ]
    assert list(runtime.outputs) == [Tensor(name="score", dtype="float32", shape=("rows",))]


def test_it_runs_on_any_number_of_rows() -> None:
    runtime = OnnxRuntime.load(onnx_files.row_sums(3))
    for rows in (1, 5, 1000):
        block = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_allclose(runtime.run({"x": block})["score"], block @ [[1], [2], [3]])


def test_rows_that_it_can_not_compute_are_malformed() -> None:
    runtime = OnnxRuntime.load(onnx_files.lookup(3))
    assert runtime.run({"codes": np.array([[2]], np.int64)})["score"].tolist() == [20]
    with pytest.raises(Malformed, match=r"model_failed: .*out of data bounds"):
        runtime.run({"codes": np.array([[2], [3]], np.int64)})


def test_a_wrong_input_is_refused_as_the_model_sees_it() -> None:
    with pytest.raises(Malformed, match="model_failed"):
        OnnxRuntime.load(onnx_files.row_sums(3)).run({"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no model at all",
        onnx_files.row_sums(3)[:-20],
        onnx_files.model(
            [node("Nonsense", ["x"], ["y"])], [info("x", FLOAT, "rows")], [info("y", FLOAT, "rows")]
        ),
    ],
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(Misdeclared, match="can't load the model"):
        OnnxRuntime.load(data)


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(), reason="there is a GPU to run on"
)
def test_a_gpu_that_is_not_there_is_refused_and_never_the_cpu_instead() -> None:
    with pytest.raises(Misdeclared, match=r"Device 'cuda' was asked for, .*headrace\[gpu\]"):
        OnnxRuntime.load(onnx_files.row_sums(3), "cuda")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(Misdeclared, match="Device 'tpu' is unknown; use one of 'cpu', 'cuda'"):
        OnnxRuntime.load(onnx_files.row_sums(3), "tpu")  # type: ignore[arg-type]


def test_outputs_that_are_no_tensors_keep_their_runtime_type() -> None:
    zipped = onnx_files.model(
        [node("ZipMap", ["x"], ["scores"], classlabels_int64s=[0, 1], domain="ai.onnx.ml")],
        [info("x", FLOAT, "rows", 2)],
        [_sequence("scores")],
    )
    assert OnnxRuntime.load(zipped).outputs[0].dtype == "seq(map(int64,tensor(float)))"


def _sequence(name: str) -> object:
    value = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
    return helper.make_value_info(name, helper.make_sequence_type_proto(value))

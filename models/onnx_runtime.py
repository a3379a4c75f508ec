"""ONNX Runtime, on the CPU or on an NVIDIA GPU.

One thread and no spinning: micro-batches of a streaming worker are small, and spinning threads burn a
core that decodes or folds (2 threads at 50 calls/s: 103 % of a core against 4 %). The CPU arena stays on:
without it memory grows with every new batch size.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from features.errors import Malformed, Misdeclared, Unavailable
from models.tensor import Array, Tensor

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it is read when the library is loaded
try:
    import onnxruntime as ort
except ImportError as error:
    raise Misdeclared(
        'onnxruntime is not installed; pip install "headrace[cpu]", or "headrace[gpu]"'
    ) from error

ort.disable_telemetry_events()

VERSION: str = ort.__version__

Device = Literal["cpu", "cuda"]

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_DTYPES = {"float": "float32", "double": "float64", "string": "str"}
_DEVICE_FAILURES = ("CUDA", "CUBLAS", "CUDNN", "Failed to allocate memory", "bad allocation", "bad_alloc")


class OnnxRuntime:
    """An ONNX Runtime session; see `models.runtime.Runtime`."""

    def __init__(self, session: "ort.InferenceSession", device: Device) -> None:
        self._session, self.device = session, device
        self.inputs: Sequence[Tensor] = [_tensor(each) for each in session.get_inputs()]
        self.outputs: Sequence[Tensor] = [_tensor(each) for each in session.get_outputs()]
        self._names = [tensor.name for tensor in self.outputs]

    @classmethod
    def load(cls, model: bytes, device: Device = "cpu") -> "OnnxRuntime":
        """A session for a model file.

        Raises:
            Misdeclared: It is no ONNX model that this ONNX Runtime can load, or the device is not there.
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # what it has to say is raised as well
        _check_device(device)
        try:
            session = ort.InferenceSession(model, options, providers=[_PROVIDERS[device]])
        except Exception as error:
            if not _is_from_runtime(error):
                raise
            raise Misdeclared(
                f"ONNX Runtime {VERSION} can't load the model: {_first_line(error)}; check the file "
                "and its opset, or upgrade onnxruntime"
            ) from error
        if session.get_providers()[0] != _PROVIDERS[device]:
            raise _no_device(device)
        return cls(session, device)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        try:
            values = self._session.run(self._names, dict(inputs))
        except Exception as error:
            if not _is_from_runtime(error):
                raise
            if any(word in str(error) for word in _DEVICE_FAILURES):
                raise Unavailable(f"The model's device failed: {_first_line(error)}") from error
            raise Malformed("model_failed", _first_line(error)) from error
        return dict(zip(self._names, values, strict=True))

    def close(self) -> None:
        """Drop the session."""
        del self._session


def _check_device(device: Device) -> None:
    if device not in _PROVIDERS:
        raise Misdeclared(f"Device {device!r} is unknown; use one of {', '.join(map(repr, _PROVIDERS))}")
    if device == "cuda" and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    if _PROVIDERS[device] not in ort.get_available_providers():
        raise _no_device(device)


def _no_device(device: Device) -> Misdeclared:
    """ONNX Runtime would go on, on the CPU, and say nothing."""
    return Misdeclared(
        f"Device {device!r} was asked for, and ONNX Runtime {VERSION} can't use one; install "
        '"headrace[gpu]" (alone: not beside "headrace[cpu]") and the CUDA libraries it names, or use device "cpu"'
    )


def _is_from_runtime(error: Exception) -> bool:
    """ONNX Runtime's own errors have no common class, only a common module."""
    return type(error).__module__.startswith("onnxruntime")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def _tensor(found: Any) -> Tensor:
    """An input or output as the session describes it."""
    kind, _, inner = found.type.partition("(")
    if kind != "tensor":
        return Tensor(name=found.name, dtype=found.type, shape=())
    named = inner.removesuffix(")")
    dtype = _DTYPES.get(named, named)
    return Tensor(name=found.name, dtype=dtype, shape=tuple(found.shape))

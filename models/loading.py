"""Loading: from a registry to a model that can run."""

from features.engine import Engine
from models.binding import Binding
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import Device, OnnxRuntime
from models.registry import ModelRef, Registry


def load_model(
    registry: Registry, ref: ModelRef, engine: Engine, batch: BatchRule, device: Device = "cpu"
) -> Model:
    """A version, verified, bound to the engine's columns and loaded; not warm yet.

    Raises:
        Misdeclared: There is none such, its file was changed, or it does not fit the columns or the device.
        Unavailable: The registry can't be read.
    """
    exact = registry.resolve(ref)
    manifest = registry.manifest(exact.name, exact.version)
    binding = Binding(manifest, engine)
    runtime = OnnxRuntime.load(registry.load(exact.name, exact.version), device)
    return Model(manifest, binding, runtime, batch.buckets)

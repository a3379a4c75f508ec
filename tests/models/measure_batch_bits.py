"""What decision 001 rests on: where outputs of a row change with its batch, and what the rule against it costs.

::

    python -m tests.models.measure_batch_bits            # the table, the flights model, and the cost in CPU time
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from models.loading import load_model
from models.microbatch import ROW_MULTIPLE
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from models.registry import ModelRef, Registry
from models.runtime import Runtime
from models.tensor import ALIGNMENT, Array
from pipelines.flights import pipeline
from tests.models import onnx_files

ROWS, WIDTH = 1024, 47
SHIFTS = (1, 2, 3, 5, 7)
REGISTRY = Path(__file__).parents[2] / "registry"

Run = Callable[[Mapping[str, Array]], Array]


def main() -> None:
    """Print everything."""
    _say(f"{'model':34} {'sizes 1..1024':>14} {'multiples of 16':>16} {'place':>6} {'address':>8}")
    block = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
    for name, file in _files().items():
        _report(name, _run(OnnxRuntime.load(file), "score"), {"x": block})
    model = load_model(Registry.at(str(REGISTRY)), ModelRef.parse("flights"), pipeline.engine, pipeline.batch)
    started = time.perf_counter()
    model.warm()
    proof = time.perf_counter() - started
    inputs = _flights_inputs(model)
    _report("flights", _run(model._runtime, "late"), inputs)
    _say(f"\nflights: warm-up with proof and sample {proof * 1000:.0f} ms, sizes {model.buckets}\n")
    _cost(model, inputs)


def _run(runtime: Runtime, output: str) -> Run:
    return lambda inputs: runtime.run(inputs)[output]


def _files() -> dict[str, bytes]:
    networks = {
        f"dense {'-'.join(map(str, widths))} {activation}": onnx_files.perceptron(widths, 0, activation)
        for widths in ([WIDTH, 64, 32, 1], [WIDTH, 300, 17, 1], [WIDTH, 256, 10])
        for activation in ("Relu", "Tanh", "Erf")
    }
    operators = ("Sigmoid", "Exp", "Log", "Softplus", "Elu", "Selu", "Sin", "Mish")
    return {
        **networks,
        **{each: onnx_files.elementwise(each, WIDTH) for each in operators},
        "computed weights 47-32": onnx_files.computed_weights(WIDTH, 32),
        "mean over 47 columns": onnx_files.row_means(WIDTH),
        "dynamic quantisation": onnx_files.dynamically_quantised(WIDTH),
    }


def _report(name: str, run: Run, inputs: Mapping[str, Array]) -> None:
    whole = run(inputs)

    def differs(rows: int) -> bool:
        given = run({key: onnx_files.as_input(array[:rows]) for key, array in inputs.items()})
        return given.tobytes() != whole[:rows].tobytes()

    sizes = [rows for rows in range(1, ROWS + 1) if differs(rows)]
    coarse = [rows for rows in sizes if rows % ROW_MULTIPLE == 0]
    places = sum(_differing(run, inputs, whole, shift) for shift in SHIFTS)
    _say(
        f"{name:34} {len(sizes):14} {len(coarse):16} {places / len(SHIFTS) / ROWS:6.0%} {_by_address(run, inputs, whole):8.0%}"
    )


def _differing(run: Run, inputs: Mapping[str, Array], whole: Array, shift: int) -> int:
    """Rows that change when all rows stand ``shift`` places earlier."""
    moved = run({key: onnx_files.as_input(np.roll(array, -shift, axis=0)) for key, array in inputs.items()})
    expected = np.roll(whole, -shift, axis=0)
    return int(_changed(moved, expected).sum())


def _by_address(run: Run, inputs: Mapping[str, Array], whole: Array) -> float:
    """Share of rows that change when the inputs start at an address that is not a multiple of 64 but of 4 or 8."""
    moved = {}
    for key, array in inputs.items():
        memory = np.empty(array.nbytes + 2 * ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT + array.itemsize
        moved[key] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        moved[key][:] = array
    return float(_changed(run(moved), whole).mean())


def _changed(given: Array, whole: Array) -> Array:
    """``(n,) bool``: rows of which a bit differs."""
    left, right = (
        np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1) for each in (given, whole)
    )
    return np.asarray((left != right).any(axis=1))


def _flights_inputs(model: Model) -> dict[str, Array]:
    """Rows around the training span's, as the model takes them."""
    generator = np.random.default_rng(0)
    training = model.manifest.training
    assert training is not None
    names = pipeline.engine.float_columns
    mean, std = (
        np.array([getattr(training.numbers[name], what) for name in names]) for what in ("mean", "std")
    )
    block = (mean + std * generator.standard_normal((ROWS, len(names)))).astype(np.float32)
    ids = np.column_stack(
        [
            generator.choice(model.manifest.vocabularies[name], ROWS)
            for name in pipeline.engine.category_columns
        ]
    )
    inputs = model._binding.room(ROWS)
    model._binding.fill(block, ids, inputs)
    return inputs


def _cost(model: Model, inputs: Mapping[str, Array]) -> None:
    """Least CPU time of many interleaved rounds: other work on the machine only adds."""
    feeds = {
        rows: {key: onnx_files.as_input(array[:rows]) for key, array in inputs.items()}
        for rows in (1, 2, 4, 8, 16, 32, 128, 1024)
    }
    least = dict.fromkeys(feeds, np.inf)
    for _ in range(60):
        for rows, feed in feeds.items():
            calls = 200 if rows <= 32 else 20
            started = time.process_time()
            for _ in range(calls):
                model._runtime.run(feed)
            least[rows] = min(least[rows], (time.process_time() - started) / calls)
    for rows, seconds in least.items():
        _say(f"ONNX Runtime, {rows:4} rows: {seconds * 1e6:7.1f} µs, {seconds / rows * 1e6:7.2f} µs a row")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()

"""Model: a version bound to a pipeline and loaded, as a worker runs it.

::

    model = load_model(Registry.at("registry"), ModelRef.parse("flights"), pipeline.engine, pipeline.batch)
    model.warm()                                   # every batch size once, with proof and sample
    model.predict(rows.block, rows.ids)            # {"late": (n,) float32}
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.errors import Misdeclared
from models.binding import Binding
from models.invariance import agreeing_buckets, probes
from models.manifest import Manifest, Output
from models.registry import ModelRef
from models.runtime import Runtime
from models.tensor import Array, Tensor

SAMPLE_ABSOLUTE, SAMPLE_RELATIVE = 1e-5, 1e-4
"""How far a stored sample's outputs may be from those of this machine: kernels differ between CPUs and GPUs."""

Block = NDArray[np.float32]
Ids = NDArray[np.int64]


class Model:
    """Predicts outputs of rows, for one thread at a time: each batch size has its inputs' memory.

    Args:
        manifest: Of the version.
        binding: Of the manifest to the pipeline's columns.
        runtime: With the model file loaded.
        buckets: Batch sizes that the runtime may see, rising.

    Raises:
        Misdeclared: The model file's inputs or outputs are not the manifest's.
    """

    def __init__(
        self, manifest: Manifest, binding: Binding, runtime: Runtime, buckets: Sequence[int]
    ) -> None:
        check_tensors(manifest, runtime)
        self.manifest, self._binding, self._runtime = manifest, binding, runtime
        self.buckets = tuple(buckets)
        self._rooms: dict[int, dict[str, Array]] = {}

    @property
    def ref(self) -> ModelRef:
        """Name, version and digest."""
        manifest = self.manifest
        return ModelRef(name=manifest.name, version=manifest.version or None, digest=manifest.sha256)

    def warm(self) -> None:
        """Run every batch size, keep those in which outputs are the same bits, and check the sample.

        Raises:
            Misdeclared: Outputs depend on the batch, or the sample's are not what they were.
        """
        self.buckets = agreeing_buckets(self._run, self.buckets, *probes(self.manifest))
        self.check_sample()

    def predict(self, block: Block, ids: Ids) -> dict[str, Array]:
        """Outputs by published name: ``(n,)``, or ``(n, k)`` where the model gives ``k`` values a row.

        Args:
            block: ``(n, floats) float32``.
            ids: ``(n, categories) int64``.

        Raises:
            Malformed: The runtime can't compute these rows; without the one at fault it may.
            Unavailable: The device failed.
            Misdeclared: The model returned another number of rows.
        """
        largest = self.buckets[-1]
        if 0 < len(block) <= largest:
            return self._run(block, ids)
        starts = range(0, len(block), largest)
        parts = [self._run(block[start : start + largest], ids[start : start + largest]) for start in starts]
        return {
            output.published: np.concatenate([part[output.published] for part in parts])
            if parts
            else _nothing(output)
            for output in self.manifest.outputs
        }

    def check_sample(self) -> None:
        """Run the stored sample: a real inference with a known answer, within 1e-5 + 1e-4 of the value.

        Raises:
            Misdeclared: The runtime computes something else here.
        """
        sample = self.manifest.sample
        if sample is None:
            return
        outputs = self.predict(*sample.rows(self._binding.floats, self._binding.categories))
        for name, expected in sample.outputs.items():
            wanted = np.array(expected, np.float64)
            if name not in outputs or outputs[name].shape != wanted.shape:
                raise Misdeclared(f"{self.ref}: the sample has the output {name!r}, which is not published")
            got = outputs[name].astype(np.float64)
            same = np.isclose(got, wanted, rtol=SAMPLE_RELATIVE, atol=SAMPLE_ABSOLUTE, equal_nan=True)
            if not same.all():
                row = int(np.argwhere(~same)[0][0])
                raise Misdeclared(
                    f"{self.ref}: output {name!r} of sample row {row} is {got[row].tolist()}, and was {wanted[row].tolist()} when "
                    "the model was registered; this runtime computes something else: use the version it was made with"
                )

    def close(self) -> None:
        """Release the runtime."""
        self._runtime.close()

    def _run(self, block: Block, ids: Ids) -> dict[str, Array]:
        """Outputs of at most as many rows as the largest size."""
        rows = len(block)
        size = self.buckets[bisect_left(self.buckets, rows)]
        if size not in self._rooms:
            self._rooms[size] = self._binding.room(size)
        inputs = self._rooms[size]
        self._binding.fill(block, ids, inputs)
        outputs = self._runtime.run(inputs)
        return {
            output.published: _published(output, outputs[output.name], size)[:rows]
            for output in self.manifest.outputs
        }


def check_tensors(manifest: Manifest, runtime: Runtime) -> None:
    """Raise `Misdeclared` unless the model file takes and gives what the manifest says."""
    taken, given = {each.name: each for each in runtime.inputs}, {each.name: each for each in runtime.outputs}
    declared = {each.name for each in manifest.inputs}
    if forgotten := [name for name in taken if name not in declared]:
        raise Misdeclared(
            f"The model file of {manifest.name} takes {taken[forgotten[0]].text} {forgotten[0]!r}, and its manifest says "
            "nothing of it; register the file again"
        )
    for kind, found, tensors in (("input", taken, manifest.inputs), ("output", given, manifest.outputs)):
        for tensor in tensors:
            _check_tensor(manifest, kind, tensor, found.get(tensor.name))


def _check_tensor(manifest: Manifest, kind: str, declared: Tensor, found: Tensor | None) -> None:
    if found is None:
        raise Misdeclared(
            f"The manifest of {manifest.name} has the {kind} {declared.name!r}, and the model file has none such; "
            "register the file again"
        )
    if declared.disagrees(found):
        raise Misdeclared(
            f"{kind.capitalize()} {declared.name!r} of {manifest.name} is {declared.text} in the manifest and {found.text} in "
            "the model file; register the file again"
        )


def _published(output: Output, values: Array, size: int) -> Array:
    """What is published of a tensor: one value a row where it has one."""
    if values.ndim == 0 or len(values) != size:
        raise Misdeclared(
            f"Output {output.name!r} has the shape {list(values.shape)} for a batch of {size}; a model gives one item a row: "
            "export it with a dynamic first dimension"
        )
    if output.column is not None:
        return np.ascontiguousarray(values[:, output.column])
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _nothing(output: Output) -> Array:
    """The output of no rows."""
    rest = [size if isinstance(size, int) else 0 for size in output.shape[1:]]
    is_single = output.column is not None or rest in ([], [1])
    return np.empty((0,) if is_single else (0, *rest), output.dtype)

"""Batch invariance: the proof, made at start, that a row's outputs do not depend on the batch it is in.

A replay cuts batches elsewhere, and must publish the same bits. Most of the way is by construction (sizes
that are multiples of 16, aligned inputs); what is left is the model's own: it is run on the same rows in
every size, at other places and in other company, and the bits are compared. Numbers and reasons stand in
docs/decisions/001-outputs-do-not-depend-on-the-batch.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from features.errors import Misdeclared
from features.kernels.fold import MISSING_ID
from models.manifest import Manifest
from models.tensor import Array

Block = NDArray[np.float32]
Ids = NDArray[np.int64]
Run = Callable[[Block, Ids], Mapping[str, Array]]

PROBES = 61
"""Different rows that are tried: a prime, so that in every size each of them comes to stand everywhere."""


def agreeing_buckets(run: Run, buckets: Sequence[int], block: Block, ids: Ids) -> tuple[int, ...]:
    """The sizes, the largest among them, in which every probe has the same outputs to the bit.

    Args:
        run: The model, for exactly as many rows as one of the sizes.
        buckets: The sizes, rising.
        block: ``(probes, floats) float32``.
        ids: ``(probes, categories) int64``.

    Raises:
        Misdeclared: Even in the largest size the outputs depend on a row's place or company.
    """
    *smaller, largest = buckets
    answers = _Answers()
    if difference := answers.difference(run, largest, block, ids):
        raise Misdeclared(
            f"Outputs of a row depend on the batch it is in: {difference}. A replay would publish other predictions. "
            "Use BatchRule(max_rows=1), or change the model: static instead of dynamic quantisation, no operation "
            "across rows, widths of sums and means that are multiples of 16"
        )
    return (*(size for size in smaller if not answers.difference(run, size, block, ids)), largest)


def probes(manifest: Manifest) -> tuple[Block, Ids]:
    """``(61, floats) float32`` and ``(61, categories) int64`` rows in the range of the training span, fixed."""
    generator = np.random.default_rng(0)
    names = [column.name for column in manifest.columns if column.dtype == "float32"]
    categories = [column.name for column in manifest.columns if column.dtype == "int64"]
    block = generator.standard_normal((PROBES, len(names)))
    for i, name in enumerate(names):
        summary = manifest.training.numbers.get(name) if manifest.training else None
        if summary is not None and summary.mean is not None and summary.std is not None:
            block[:, i] = summary.mean + summary.std * block[:, i]
            block[generator.random(PROBES) < summary.missing, i] = np.nan
    ids = np.empty((PROBES, len(categories)), np.int64)
    for i, name in enumerate(categories):
        known = [0, int(MISSING_ID), *manifest.vocabularies.get(name, ())]
        ids[:, i] = generator.choice(np.array(known, np.int64), PROBES)
    return block.astype(np.float32), ids


class _Answers:
    """What the model said first of each probe."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], np.generic] = {}

    def difference(self, run: Run, size: int, block: Block, ids: Ids) -> str | None:
        """Where it says something else in this size."""
        for rows in _compositions(size, len(block)):
            for name, values in run(block[rows], ids[rows]).items():
                for row, value in zip(rows.tolist(), values, strict=True):
                    first = self._first.setdefault((name, row), value)
                    if first.tobytes() != value.tobytes():
                        return f"output {name!r} of one row is {first.tolist()} and, in a batch of {size}, {value.tolist()}"
        return None


def _compositions(size: int, rows: int) -> Iterator[NDArray[np.int64]]:
    """``(size,) int64`` rows of a batch: all in turn, from several starts, and each of two for itself."""
    for turn in range(max(2, -(-2 * rows // size))):
        yield (turn * size + np.arange(size)) % rows
    for alone in (0, 1):
        yield np.full(size, alone)

"""Manifest: everything a worker has to know about a model file before it runs it; readable JSON.

::

    manifest = Manifest.read(data)      # ignores fields of later minor formats, refuses a later format
    data = manifest.write()
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.engine import Engine
from features.errors import Misdeclared
from models.lineage import Training
from models.tensor import Tensor

FORMAT = 1
"""Counts changes that an older reader would misunderstand; new fields alone are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the maker of a new version says of it.

    Args:
        name: Of the model.
        created: Now, UTC.
        revision: Of the code that made it, as its version control names it.
        parent: The version that it was made from, as ``name:version``.
    """

    name: str
    created: datetime
    revision: str | None = None
    parent: str | None = None


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the pipeline: ``float32``, or ``int64`` for category ids."""

    name: str
    dtype: str


class Input(Tensor, frozen=True, kw_only=True):
    """A tensor that the model takes.

    Args:
        columns: The pipeline's columns that feed it, in order; category columns as vocabulary codes.
    """

    columns: tuple[str, ...]


class Output(Tensor, frozen=True, kw_only=True):
    """A tensor that the model gives.

    Args:
        published: Its name in predictions.
        column: The only column of it that is published; all of them by default.
    """

    published: str
    column: int | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A few rows and what the model said about them: a check that the runtime computes what it did.

    Args:
        block: Rows of the float columns; ``None`` is NaN.
        ids: Rows of the category columns.
        outputs: By published name, a value or a list of values for each row; ``None`` is NaN.
    """

    block: tuple[tuple[float | None, ...], ...]
    ids: tuple[tuple[int, ...], ...]
    outputs: dict[str, list[Any]]

    @classmethod
    def of(
        cls,
        block: NDArray[np.float32],
        ids: NDArray[np.int64],
        outputs: dict[str, NDArray[np.generic]],
    ) -> "Sample":
        """Of ``(n, floats) float32``, ``(n, categories) int64`` and outputs of ``n`` rows, all finite or NaN."""
        return cls(
            block=tuple(map(tuple, _nullable(block))),
            ids=tuple(map(tuple, ids.tolist())),
            outputs={name: _nullable(values) for name, values in outputs.items()},
        )

    def rows(self, floats: int, categories: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The rows as the engine would give them."""
        block = np.array(self.block, np.float32).reshape(len(self.block), floats)
        return block, np.array(self.ids, np.int64).reshape(len(self.ids), categories)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A model version; parts that a foreign model has no answer to are ``None``.

    Args:
        format: Of this file.
        name: Of the model.
        version: From 1; 0 until the registry gave one.
        sha256: Of the model file, in hex.
        created: When it was made, UTC.
        inputs: Every tensor that the model takes, and the columns that feed it.
        outputs: The tensors that are published.
        column_fingerprint: Of the pipeline whose columns feed it.
        columns: The columns that the fingerprint stands for: floats, then categories.
        vocabularies: By category column, the known ids in code order; the first has code 2.
        runtime: What runs the file.
        parent: The version that it was made from, as ``name:version``.
        training: How it was made.
        sample: Rows with their known outputs.
    """

    format: int = FORMAT
    name: str
    version: int = 0
    sha256: str
    created: datetime
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    column_fingerprint: str
    columns: tuple[Column, ...]
    vocabularies: dict[str, tuple[int, ...]]
    runtime: Literal["onnx"] = "onnx"
    parent: str | None = None
    training: Training | None = None
    sample: Sample | None = None

    def write(self) -> bytes:
        """As JSON: indented, lists of numbers on one line, NaN as null."""
        return _readable(msgspec.json.encode(self)).encode() + b"\n"

    @classmethod
    def read(cls, data: bytes, where: str) -> "Manifest":
        """The manifest at ``where``, which messages name.

        Raises:
            Misdeclared: It is torn, something else, or of a later format.
        """
        try:
            found = msgspec.json.decode(data, type=_Format).format
            if found > FORMAT:
                raise Misdeclared(
                    f"{where} has format {found}, and this Headrace reads up to {FORMAT}; upgrade Headrace"
                )
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise Misdeclared(
                f"{where} is torn or no manifest: {error}; delete that version and register the model again"
            ) from error


class _Format(msgspec.Struct):
    format: int


def columns_of(engine: Engine) -> tuple[Column, ...]:
    """The engine's columns as a manifest lists them, and as replayed tables hold them."""
    return (
        *(Column(name=name, dtype="float32") for name in engine.float_columns),
        *(Column(name=name, dtype="int64") for name in engine.category_columns),
    )


def _nullable(values: NDArray[np.generic]) -> list[Any]:
    """Nested lists, ``None`` for NaN."""
    plain = values.astype(object)
    if values.dtype.kind == "f":
        plain[np.isnan(values.astype(np.float64))] = None
    return plain.tolist()


def _readable(data: bytes) -> str:
    """Indented JSON with innermost lists of numbers on one line each; no JSON text holds a bare line break."""
    text = msgspec.json.format(data, indent=2).decode()
    return re.sub(r"\[\n([-+.\deE,\snul]+?)\n *\]", lambda found: f"[{' '.join(found[1].split())}]", text)

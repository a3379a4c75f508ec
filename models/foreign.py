"""Foreign models: any other ONNX file, bound to a pipeline's columns as its inputs suggest.

==================================================  ============================================
an input                                            takes
==================================================  ============================================
named like a column, ``[rows]`` or ``[rows, 1]``    that column
float, as wide as there are float columns           all of them, in order
``int64``, as wide as there are category columns    all of them, as vocabulary codes
float, as wide as both together                     all floats, then all categories as codes
anything else                                       what ``--input NAME=column,column`` says
==================================================  ============================================

Float outputs are published under their own names unless ``--output`` says otherwise; a classifier's
``label`` is left out.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from features.engine import Engine
from features.errors import Misdeclared
from features.schema import did_you_mean
from models.binding import Binding
from models.invariance import probes
from models.manifest import Input, Manifest, Output, Sample, Stamp, columns_of
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from models.tensor import ROWS, Array, Tensor
from models.vocabulary import Vocabulary

_FLOATS = ("float16", "float32", "float64")
_INTEGERS = ("int32", "int64")
_SAMPLE_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What can't be read from the file.

    Args:
        inputs: By input name, the columns that feed it.
        outputs: By output name, or ``name[i]`` for one column of it, what it is published as; if given, only
            these are published.
        vocabularies: By category column, the codes that the model was trained with.
    """

    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)


def foreign_manifest(model: bytes, engine: Engine, wiring: Wiring, stamp: Stamp) -> Manifest:
    """A manifest for an ONNX file that was made elsewhere; it is run once, for the sample.

    Raises:
        Misdeclared: What it takes or gives can't be wired, naming the tensor and the fix.
    """
    runtime = OnnxRuntime.load(model)
    _check_names("--input", wiring.inputs, [tensor.name for tensor in runtime.inputs])
    _check_names("--output", map(_bare, wiring.outputs), [tensor.name for tensor in runtime.outputs])
    manifest = Manifest(
        name=stamp.name,
        parent=stamp.parent,
        sha256=hashlib.sha256(model).hexdigest(),
        created=stamp.created,
        inputs=tuple(_input(tensor, engine, wiring) for tensor in runtime.inputs),
        outputs=_outputs(runtime.outputs, wiring.outputs),
        column_fingerprint=engine.column_fingerprint,
        columns=columns_of(engine),
        vocabularies={name: vocabulary.ids for name, vocabulary in wiring.vocabularies.items()},
    )
    block, ids = probes(manifest)
    block, ids = block[:_SAMPLE_ROWS], ids[:_SAMPLE_ROWS]
    loaded = Model(manifest, Binding(manifest, engine), runtime, BatchRule().buckets)
    given = loaded.predict(block, ids)
    return msgspec.structs.replace(
        manifest,
        outputs=tuple(_sized(output, given[output.published]) for output in manifest.outputs),
        sample=Sample.of(block, ids, given),
    )


def _input(tensor: Tensor, engine: Engine, wiring: Wiring) -> Input:
    if tensor.dtype not in (*_FLOATS, *_INTEGERS) or len(tensor.shape) not in {1, 2}:
        raise Misdeclared(
            f"Input {tensor.name!r} is {tensor.text}; a model takes [rows] or [rows, columns] of numbers: export it so"
        )
    if isinstance(tensor.shape[0], int):
        raise Misdeclared(
            f"Input {tensor.name!r} is {tensor.text}: it takes exactly {tensor.shape[0]} rows; export the model with a "
            f"dynamic first dimension, such as torch.onnx.export(..., dynamic_shapes={{{tensor.name!r}: {{0: 'rows'}}}})"
        )
    columns = tuple(wiring.inputs.get(tensor.name) or _suggested(tensor, engine))
    width = 1 if len(tensor.shape) == 1 else tensor.shape[1]
    if isinstance(width, int) and width != len(columns):
        raise Misdeclared(
            f"--input {tensor.name}={','.join(columns)}: {tensor.text} takes {width} columns, and these are {len(columns)}"
        )
    shape = (ROWS,) if len(tensor.shape) == 1 else (ROWS, len(columns))
    return Input(name=tensor.name, dtype=tensor.dtype, shape=shape, columns=columns)


def _suggested(tensor: Tensor, engine: Engine) -> Sequence[str]:
    """The columns that the input's name, type and width speak of."""
    floats, categories = engine.float_columns, engine.category_columns
    width = 1 if len(tensor.shape) == 1 else tensor.shape[1]
    if tensor.name in (*floats, *categories) and width == 1:
        return (tensor.name,)
    if tensor.dtype in _FLOATS and width == len(floats):
        return floats
    if tensor.dtype in _FLOATS and width == len(floats) + len(categories):
        return (*floats, *categories)
    if tensor.dtype in _INTEGERS and width == len(categories):
        return categories
    raise Misdeclared(
        f"Input {tensor.name!r} is {tensor.text}, and the pipeline has {len(floats)} float and {len(categories)} category "
        f"columns: say which feed it, as in --input {tensor.name}={','.join([*floats, *categories][:2])}"
    )


def _outputs(given: Sequence[Tensor], wanted: Mapping[str, str]) -> tuple[Output, ...]:
    by_name = {tensor.name: tensor for tensor in given}
    if wanted:
        return tuple(_output(by_name[_bare(name)], name, published) for name, published in wanted.items())
    if sequences := [tensor for tensor in given if not tensor.dtype.isidentifier()]:
        raise _not_a_tensor(sequences[0])
    floats = [tensor for tensor in given if tensor.dtype in _FLOATS]
    if not floats:
        raise Misdeclared(
            f"The model gives {', '.join(f'{each.name} {each.text}' for each in given)}, and no floats; say what to publish, "
            f"as in --output {given[0].name}=score"
        )
    return tuple(_output(tensor, tensor.name, tensor.name) for tensor in floats)


def _output(tensor: Tensor, name: str, published: str) -> Output:
    if not tensor.dtype.isidentifier():
        raise _not_a_tensor(tensor)
    if tensor.dtype not in (*_FLOATS, *_INTEGERS, "bool") or len(tensor.shape) not in {1, 2}:
        raise Misdeclared(
            f"Output {tensor.name!r} is {tensor.text}; [rows] or [rows, values] of numbers can be published: choose "
            "another with --output"
        )
    if isinstance(tensor.shape[0], int):
        raise Misdeclared(
            f"Output {tensor.name!r} is {tensor.text}: it always has {tensor.shape[0]} rows; export the model with a dynamic "
            "first dimension"
        )
    index = re.search(r"\[(\d+)\]$", name)
    column = int(index[1]) if index else None
    width = tensor.shape[1] if len(tensor.shape) == 2 else 0
    if column is not None and isinstance(width, int) and column >= width:
        raise Misdeclared(f"--output {name}: {tensor.name!r} is {tensor.text} and has no column {column}")
    return Output(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=(ROWS, *tensor.shape[1:]),
        published=published,
        column=column,
    )


def _not_a_tensor(tensor: Tensor) -> Misdeclared:
    return Misdeclared(
        f"Output {tensor.name!r} is {tensor.dtype}, a Python list of dicts; convert the model again with ZipMap off: "
        "to_onnx(model, options={'zipmap': False})"
    )


def _check_names(flag: str, names: "Mapping[str, object] | map[str]", known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise Misdeclared(f"{flag} {name}=...: the model has none such; {did_you_mean(name, known)}")


def _bare(name: str) -> str:
    """``probabilities`` of ``probabilities[1]``."""
    return re.sub(r"\[\d+\]$", "", name)


def _sized(output: Output, values: Array) -> Output:
    """With the width that it turned out to have, where the file leaves it open."""
    if len(output.shape) == 1 or isinstance(output.shape[1], int) or output.column is not None:
        return output
    return msgspec.structs.replace(output, shape=(ROWS, 1 if values.ndim == 1 else values.shape[1]))

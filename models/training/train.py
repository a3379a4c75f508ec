"""Train: a replayed table to a model file and its manifest; a function of its arguments alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import onnx
import pyarrow as pa
import torch
from numpy.typing import NDArray

from features.engine import Engine
from features.errors import Misdeclared
from models.binding import Binding
from models.lineage import Baseline, Training
from models.manifest import Input, Manifest, Output, Sample, Stamp, columns_of
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import VERSION as ONNX_RUNTIME_VERSION
from models.onnx_runtime import OnnxRuntime
from models.quality import measure
from models.tensor import ROWS
from models.training.examples import Examples, Splits, split
from models.training.export import BLOCK, export
from models.training.fit import Fitted, fit, probabilities
from models.training.plan import Progress, TrainingPlan

AGREEMENT = 1e-5
"""How far a probability of the ONNX file may be from torch's, on every row of the test span."""

SAMPLE_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model that can be registered.

    Args:
        model: The ONNX file.
        manifest: Without a version.
    """

    model: bytes
    manifest: Manifest


def train(
    table: pa.Table,
    engine: Engine,
    plan: TrainingPlan,
    stamp: Stamp,
    progress: Progress = lambda _what, _done, _total: None,
) -> Trained:
    """Fit, choose, calibrate, export and measure.

    Two calls with equal arguments on one machine give the same bytes. Rows without a label are left out and
    counted. Metrics are those of the ONNX file, as a worker runs it.

    Args:
        table: Rows that replay made for the pipeline, with ``label``.
        engine: Of the pipeline.
        plan: How to train.
        stamp: Whose model it is, and when it was made of which code.
        progress: Told what goes on, how much of it is done, and of how much.

    Raises:
        Misdeclared: The table does not fit the plan, or the exported file computes something else than torch.
    """
    splits = split(table, engine, plan)
    fitted = fit(splits.train, splits.choose, plan, lambda _, done, total: progress("model", done, total))
    data = export(fitted.network, len(engine.float_columns), len(engine.category_columns), plan.output)
    manifest = _manifest(data, engine, plan, fitted, stamp)
    model = Model(manifest, Binding(manifest, engine), OnnxRuntime.load(data), BatchRule().buckets)
    model.warm()
    given = model.predict(splits.test.block, splits.test.ids)[plan.output].astype(np.float32)
    _check_agreement(given, probabilities(fitted.network, splits.test, fitted.vocabularies))
    training = Training(
        data=splits.data,
        numbers=splits.train.numbers(),
        categories=splits.train.categories(),
        revision=stamp.revision,
        hyperparameters={**plan.hyperparameters(), "dropout": fitted.dropout, "epoch": fitted.epoch},
        seed=plan.seed,
        libraries=_libraries(),
        metrics=measure(splits.test.labels, given),
        baseline=_baseline(splits, engine, plan, progress),
    )
    complete = msgspec.structs.replace(manifest, training=training, sample=_sample(model, splits.test))
    return Trained(model=data, manifest=complete)


def _manifest(data: bytes, engine: Engine, plan: TrainingPlan, fitted: Fitted, stamp: Stamp) -> Manifest:
    """All but how it was trained."""
    return Manifest(
        name=stamp.name,
        parent=stamp.parent,
        sha256=hashlib.sha256(data).hexdigest(),
        created=stamp.created,
        inputs=tuple(_input(each.name, engine) for each in OnnxRuntime.load(data).inputs),
        outputs=(Output(name=plan.output, dtype="float32", shape=(ROWS,), published=plan.output),),
        column_fingerprint=engine.column_fingerprint,
        columns=columns_of(engine),
        vocabularies={column: each.ids for column, each in fitted.vocabularies.items()},
    )


def _input(name: str, engine: Engine) -> Input:
    is_block = name == BLOCK
    columns = engine.float_columns if is_block else engine.category_columns
    dtype = "float32" if is_block else "int64"
    return Input(name=name, dtype=dtype, shape=(ROWS, len(columns)), columns=columns)


def _check_agreement(given: NDArray[np.float32], torchs: NDArray[np.float32]) -> None:
    worst = float(np.abs(given.astype(np.float64) - torchs).max())
    if not worst <= AGREEMENT:
        raise Misdeclared(
            f"The ONNX file and torch differ by {worst:.2e} on the test span, more than {AGREEMENT}; train with another "
            f"version of torch ({torch.__version__}) or onnxruntime ({ONNX_RUNTIME_VERSION})"
        )


def _baseline(splits: Splits, engine: Engine, plan: TrainingPlan, progress: Progress) -> Baseline | None:
    """The same, without streaming features; none if nothing is left, or nothing was taken away."""
    columns = tuple(plan.baseline_columns) or _event_columns(engine)
    if not columns or len(columns) == len(columns_of(engine)):
        return None
    train, choose, test = (part.select(columns) for part in (splits.train, splits.choose, splits.test))
    fitted = fit(train, choose, plan, lambda _, done, total: progress("baseline", done, total))
    given = probabilities(fitted.network, test, fitted.vocabularies)
    return Baseline(columns=columns, metrics=measure(test.labels, given))


def _event_columns(engine: Engine) -> tuple[str, ...]:
    """Columns of the event alone."""
    return tuple(column for declared in engine.sets if not declared.key for column in declared.columns)


def _sample(model: Model, examples: Examples) -> Sample:
    """Rows spread over the span, none with an infinite value, which JSON can't hold."""
    usable = np.flatnonzero(~np.isinf(examples.block).any(axis=1))
    rows = usable[np.linspace(0, len(usable) - 1, SAMPLE_ROWS).astype(np.int64)]
    block, ids = examples.block[rows], examples.ids[rows]
    return Sample.of(block, ids, model.predict(block, ids))


def _libraries() -> dict[str, str]:
    modules: Sequence[tuple[str, str]] = (
        ("numpy", np.__version__),
        ("onnx", onnx.__version__),
        ("onnxruntime", ONNX_RUNTIME_VERSION),
        ("torch", str(torch.__version__)),
    )
    return dict(modules)

"""A small pipeline's columns, and manifests for them."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.engine import Engine
from features.featureset import FeatureSet
from features.kernels.fold import MISSING_ID
from features.kinds import category, count, mean, raw
from features.schema import EventTime, Field, Schema
from models.binding import Binding
from models.manifest import Input, Manifest, Output, columns_of
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from models.tensor import ROWS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)

SCHEMA = Schema(
    fields=[
        Field(name="card", type=str),
        Field(name="ts", type=int),
        Field(name="amount", type=float, optional=True),
        Field(name="shop", type=str, optional=True),
        Field(name="city", type=str, optional=True),
    ],
    key="card",
    time=EventTime(field="ts"),
)


def engine(window: timedelta = HOUR) -> Engine:
    """Float columns amount, card.n, card.mean; category columns shop, city."""
    event = FeatureSet(features={"amount": raw("amount"), "shop": category("shop"), "city": category("city")})
    card = FeatureSet(key="card", features={"n": count(window=window), "mean": mean("amount", window=window)})
    return Engine(SCHEMA, [event, card])


FLOATS = ("amount", "card.n", "card.mean")
CATEGORIES = ("shop", "city")
VOCABULARIES: Mapping[str, tuple[int, ...]] = {"shop": (70, 50, 60), "city": (-5,)}


def block_input(columns: Sequence[str] = FLOATS, **changes: Any) -> Input:
    plain = Input(name="block", dtype="float32", shape=(ROWS, len(columns)), columns=tuple(columns))
    return msgspec.structs.replace(plain, **changes)


def codes_input(columns: Sequence[str] = CATEGORIES, **changes: Any) -> Input:
    plain = Input(name="codes", dtype="int64", shape=(ROWS, len(columns)), columns=tuple(columns))
    return msgspec.structs.replace(plain, **changes)


def score(*sizes: int) -> Output:
    return Output(name="score", dtype="float32", shape=(ROWS, *sizes), published="score")


def manifest(
    model: bytes = b"",
    inputs: Sequence[Input] = (block_input(), codes_input()),
    outputs: Sequence[Output] = (score(),),
    **changes: Any,
) -> Manifest:
    compiled = engine()
    plain = Manifest(
        name="shop",
        sha256=hashlib.sha256(model).hexdigest(),
        created=NOW,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        column_fingerprint=compiled.column_fingerprint,
        columns=columns_of(compiled),
        vocabularies=dict(VOCABULARIES),
    )
    return msgspec.structs.replace(plain, **changes)


def loaded(model: bytes, declared: Manifest, rule: BatchRule | None = None) -> Model:
    binding = Binding(declared, engine())
    return Model(declared, binding, OnnxRuntime.load(model), (rule or BatchRule()).buckets)


def rows(n: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Blocks with NaN among them, ids known, unknown and missing."""
    generator = np.random.default_rng(seed)
    block = generator.standard_normal((n, 3)).astype(np.float32)
    block[generator.random((n, 3)) < 0.1] = np.nan
    ids = generator.choice(np.array([70, 50, 60, -5, 999, MISSING_ID], np.int64), (n, 2))
    return block, ids

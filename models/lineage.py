"""Lineage: what a model was trained on, with what, and how good it turned out.

The summaries of the training span are what live rows are compared with later (drift).
"""

from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.kernels.fold import MISSING_ID
from models.quality import Quality

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TOP_CATEGORIES = 20


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with ``begin <= event time < end``.

    Args:
        begin: UTC; of the first span, its first row.
        end: UTC; of the last span, just after its last row.
        rows: Labelled rows in it.
        positives: How many of them have label 1.
    """

    begin: datetime
    end: datetime
    rows: int
    positives: int


class TrainingData(msgspec.Struct, frozen=True, kw_only=True):
    """The replayed rows.

    Args:
        digest: SHA-256 over event time, features digest and label of the labelled rows, in training order.
        rows: Labelled rows.
        without_label: Rows left out because their outcome is missing.
        spans: ``train``, ``choose`` and ``test``.
    """

    digest: str
    rows: int
    without_label: int
    spans: dict[str, Span]


class NumberSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A float column on the training span; what is computed of no value at all is ``None``.

    Args:
        count: Rows.
        missing: Share of rows that are NaN.
        mean: Of the others, as the rest.
        std: Population standard deviation.
        min: Smallest.
        max: Largest.
        quantiles: By probability, linear between values.
    """

    count: int
    missing: float
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    quantiles: dict[str, float | None]

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> "NumberSummary":
        """Summarise ``(n,) float32``."""
        there = values[~np.isnan(values)].astype(np.float64)
        missing = 1 - len(there) / len(values) if len(values) else 0.0
        if not len(there):
            nothing = dict.fromkeys(map(str, QUANTILES))
            return cls(
                count=len(values), missing=missing, mean=None, std=None, min=None, max=None, quantiles=nothing
            )
        quantiles = np.quantile(there, QUANTILES)
        return cls(
            count=len(values),
            missing=missing,
            mean=float(there.mean()),
            std=float(there.std()),
            min=float(there.min()),
            max=float(there.max()),
            quantiles={str(q): float(value) for q, value in zip(QUANTILES, quantiles, strict=True)},
        )


class CategoryShare(msgspec.Struct, frozen=True, kw_only=True):
    """How often a category occurs, as a share of all rows."""

    id: int
    share: float


class CategorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """A category column on the training span.

    Args:
        count: Rows.
        missing: Share of rows whose category is missing.
        distinct: Different ids, missing not among them.
        top: The most frequent ids.
    """

    count: int
    missing: float
    distinct: int
    top: tuple[CategoryShare, ...]

    @classmethod
    def of(cls, ids: NDArray[np.int64]) -> "CategorySummary":
        """Summarise ``(n,) int64`` ids."""
        known, counts = by_frequency(ids)
        return cls(
            count=len(ids),
            missing=1 - int(counts.sum()) / len(ids) if len(ids) else 0.0,
            distinct=len(known),
            top=tuple(
                CategoryShare(id=id_, share=count / len(ids))
                for id_, count in zip(
                    known[:TOP_CATEGORIES].tolist(), counts[:TOP_CATEGORIES].tolist(), strict=True
                )
            ),
        )


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The same model without streaming features: what the stream is worth.

    Args:
        columns: What it was given.
        metrics: On the same rows.
    """

    columns: tuple[str, ...]
    metrics: Quality


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """How a model was made.

    Args:
        data: What it was trained on.
        numbers: Summary of every float column on the training span.
        categories: Summary of every category column on the training span.
        revision: Of the code, as its version control names it.
        hyperparameters: As declared, and what was chosen on the choose span.
        seed: Of every random choice.
        libraries: Version of each library that computed it.
        metrics: On the test span, of the model file as it is served.
        baseline: On the test span, without streaming features.
    """

    data: TrainingData
    numbers: dict[str, NumberSummary]
    categories: dict[str, CategorySummary]
    revision: str | None
    hyperparameters: dict[str, Any]
    seed: int
    libraries: dict[str, str]
    metrics: Quality
    baseline: Baseline | None


def by_frequency(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Known ids and their counts, most frequent first and of equal counts the smaller id; no missing ones."""
    known, counts = np.unique(ids[ids != MISSING_ID], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return known[order], counts[order]

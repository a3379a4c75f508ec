"""Examples: labelled rows of a replayed table, in an order and with a digest that partitions do not change."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.engine import Engine
from features.errors import Misdeclared
from features.schema import did_you_mean
from models.lineage import CategorySummary, NumberSummary, Span, TrainingData
from models.training.plan import TrainingPlan

SPANS = ("train", "choose", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """``n`` labelled rows, ordered by event time, features digest and label.

    Args:
        float_columns: Names of the block's columns.
        category_columns: Names of the ids' columns.
        times: ``(n,) int64`` event times, ms.
        block: ``(n, floats) float32``.
        ids: ``(n, categories) int64``.
        labels: ``(n,) float32``, 0 or 1.
    """

    float_columns: tuple[str, ...]
    category_columns: tuple[str, ...]
    times: NDArray[np.int64]
    block: NDArray[np.float32]
    ids: NDArray[np.int64]
    labels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: slice) -> Self:
        """Some of the rows, as a view."""
        return type(self)(
            float_columns=self.float_columns,
            category_columns=self.category_columns,
            times=self.times[rows],
            block=self.block[rows],
            ids=self.ids[rows],
            labels=self.labels[rows],
        )

    def select(self, names: Sequence[str]) -> Self:
        """Some of the columns; raises `Misdeclared` if there is no such."""
        columns = (*self.float_columns, *self.category_columns)
        for name in names:
            if name not in columns:
                raise Misdeclared(
                    f"TrainingPlan baseline_columns has {name!r}; {did_you_mean(name, columns)}"
                )
        floats = [i for i, name in enumerate(self.float_columns) if name in names]
        categories = [i for i, name in enumerate(self.category_columns) if name in names]
        return type(self)(
            float_columns=tuple(self.float_columns[i] for i in floats),
            category_columns=tuple(self.category_columns[i] for i in categories),
            times=self.times,
            block=np.take(self.block, floats, axis=1),
            ids=np.take(self.ids, categories, axis=1),
            labels=self.labels,
        )

    def numbers(self) -> dict[str, NumberSummary]:
        """A summary of each float column."""
        return {name: NumberSummary.of(self.block[:, i]) for i, name in enumerate(self.float_columns)}

    def categories(self) -> dict[str, CategorySummary]:
        """A summary of each category column."""
        return {name: CategorySummary.of(self.ids[:, i]) for i, name in enumerate(self.category_columns)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """The spans of a plan, and where they came from."""

    train: Examples
    choose: Examples
    test: Examples
    data: TrainingData


def split(table: pa.Table, engine: Engine, plan: TrainingPlan) -> Splits:
    """Read, order, digest and split a replayed table; see `pipelines.replay`.

    Raises:
        Misdeclared: The table lacks a column, labels are not 0 and 1, or a span lacks one of them.
    """
    examples, digest = _read(table, engine)
    edges = [0, *np.searchsorted(examples.times, plan.bounds).tolist(), len(examples)]
    parts = [examples.take(slice(start, end)) for start, end in itertools.pairwise(edges)]
    for name, part in zip(SPANS, parts, strict=True):
        _check_span(name, part, plan)
    train, choose, test = parts
    ends = (plan.train_until, plan.choose_until, _moment(int(test.times[-1]) + 1))
    begins = (_moment(int(train.times[0])), *ends[:-1])
    data = TrainingData(
        digest=digest,
        rows=len(examples),
        without_label=len(table) - len(examples),
        spans={
            name: Span(begin=begin, end=end, rows=len(part), positives=int(part.labels.sum()))
            for name, part, begin, end in zip(SPANS, parts, begins, ends, strict=True)
        },
    )
    return Splits(train=train, choose=choose, test=test, data=data)


def _read(table: pa.Table, engine: Engine) -> tuple[Examples, str]:
    names = ("event_time", "features_digest", "label", *engine.float_columns, *engine.category_columns)
    for name in names:
        if name not in table.schema.names:
            raise Misdeclared(
                f"The table has no column {name!r}; train on rows that replay made for this pipeline, with its labels"
            )
    labels = table["label"].to_numpy()
    kept = np.flatnonzero(~np.isnan(labels))
    times, digests = (
        table["event_time"].to_numpy()[kept],
        table["features_digest"].to_numpy()[kept],
    )
    labels = labels[kept]
    if other := set(np.unique(labels)) - {0, 1}:
        raise Misdeclared(
            f"A label is {other.pop():g}; this trains classifiers: declare Labels(value=...) as a comparison"
        )
    order = np.lexsort((labels, digests, times))
    rows, times, labels = kept[order], times[order], labels[order].astype(np.float32)
    digest = hashlib.sha256()
    for column in (times, digests[order], labels):
        digest.update(column.tobytes())
    return Examples(
        float_columns=engine.float_columns,
        category_columns=engine.category_columns,
        times=times,
        block=_matrix(table, engine.float_columns, rows, np.dtype(np.float32)),
        ids=_matrix(table, engine.category_columns, rows, np.dtype(np.int64)),
        labels=labels,
    ), digest.hexdigest()


def _matrix(
    table: pa.Table, names: Sequence[str], rows: NDArray[np.int64], dtype: np.dtype[Any]
) -> NDArray[Any]:
    out = np.empty((len(rows), len(names)), dtype)
    for i, name in enumerate(names):
        out[:, i] = table[name].to_numpy()[rows]
    return out


def _check_span(name: str, part: Examples, plan: TrainingPlan) -> None:
    positives = int(part.labels.sum())
    if not 0 < positives < len(part):
        raise Misdeclared(
            f"The {name} span has {len(part)} labelled rows, {positives} of them positive, and needs both outcomes; move "
            f"train_until {plan.train_until} or choose_until {plan.choose_until}, or replay more"
        )


def _moment(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)

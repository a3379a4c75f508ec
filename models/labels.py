"""Labels that come later: joined to rows by key when a row's horizon closes, not when its label comes.

Late outcomes are known later than early ones; counting a row only when its horizon closes keeps what
is measured free of that bias. The same join serves training and live quality.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns
from features.errors import Misdeclared, declared_as
from features.expressions import Column, Expression
from features.kernels.search import search_pairs
from features.program import evaluate
from features.schema import Schema

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Which events carry the outcome of an earlier scored event.

    Args:
        key: The text field that names the case in both events.
        when: Which events carry a label.
        value: The label: a number, or a boolean as 0 and 1.
        horizon: How long after its event time a row waits; a label later than that does not count.
        without: What a row without a label is: ``"missing"`` or ``"negative"`` (0).
        wins: Which of several labels counts, by event time: ``"first"`` or ``"last"``.
    """

    key: str
    when: Expression
    value: Expression
    horizon: timedelta
    without: Literal["missing", "negative"] = "missing"
    wins: Literal["first", "last"] = "first"

    def fields(self) -> set[str]:
        """Names of the fields that the labels and their key read."""
        return {self.key, *self.when.fields(), *self.value.fields()}

    def check(self, schema: Schema) -> None:
        """Raise `Misdeclared` if the labels can't be computed from these fields."""
        with declared_as("Labels key"):
            if schema[self.key].type is not str:
                raise Misdeclared(
                    f"field {self.key!r} is a {schema[self.key].type.__name__}; it has to be str"
                )
        with declared_as(f"Labels when={self.when.text}"):
            if self.when.type_in(schema) != "boolean":
                raise Misdeclared("it is neither true nor false; compare it with something")
        with declared_as(f"Labels value={self.value.text}"):
            if self.value.type_in(schema) == "text":
                raise Misdeclared("it is a text; use a number or a comparison")
        if self.horizon <= timedelta(0):
            raise Misdeclared(f"Labels horizon {self.horizon} is not positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """Rows whose horizon has closed.

    Args:
        rows: ``(n,) int64`` the numbers that the rows were added with, in the order added.
        labels: ``(n,) float64``, NaN where missing.
    """

    rows: Int64s
    labels: Float64s


class LabelJoin:
    """Rows that wait for their horizon, and labels that may still count.

    A label counts for a row of its key if its time lies in ``[row time, row time + horizon]``.
    """

    def __init__(self, labels: Labels) -> None:
        self._declared = labels
        self._horizon = labels.horizon // timedelta(milliseconds=1)
        nothing = np.empty(0, np.int64)
        self._keys, self._times, self._rows = nothing, nothing, nothing
        self._label_keys, self._label_times, self._label_values = nothing, nothing, np.empty(0, np.float64)
        self._new_labels: list[tuple[Int64s, Int64s, Float64s]] = []

    @property
    def waiting(self) -> int:
        """Rows whose horizon is open."""
        return len(self._rows)

    def add_rows(self, keys: Int64s, times: Int64s, rows: Int64s) -> None:
        """Scored rows: ids of their keys, event times in ms, and any numbers to know them by."""
        self._keys = np.concatenate([self._keys, keys])
        self._times = np.concatenate([self._times, times])
        self._rows = np.concatenate([self._rows, rows])

    def add_labels(self, keys: Int64s, times: Int64s, values: Float64s) -> None:
        """Labels, in log order."""
        if len(keys):
            self._new_labels.append((keys, times, values))

    def close(self, watermark: int | None = None) -> LabelledRows:
        """Take the rows whose horizon lies before the watermark (ms); all of them if it is None."""
        if watermark is None:
            closing = np.ones(len(self._rows), np.bool_)
        else:
            closing = self._times + self._horizon < watermark
        keys, times, rows = self._keys[closing], self._times[closing], self._rows[closing]
        labels = self._find(keys, times)
        self._keys, self._times, self._rows = (
            self._keys[~closing],
            self._times[~closing],
            self._rows[~closing],
        )
        self._forget_labels(watermark)
        return LabelledRows(rows=rows, labels=labels)

    def _find(self, keys: Int64s, times: Int64s) -> Float64s:
        """The label of each row."""
        without = 0.0 if self._declared.without == "negative" else np.nan
        found = np.full(len(keys), without)
        self._sort_labels()
        label_keys, label_times = self._label_keys, self._label_times
        by_first = self._declared.wins == "first"
        bounds = times if by_first else times + self._horizon
        at = _search(label_keys, label_times, keys, bounds, side="left" if by_first else "right")
        at = at if by_first else at - 1
        inside = (at >= 0) & (at < len(label_keys))
        place = np.where(inside, at, 0)
        if len(label_keys):
            inside &= label_keys[place] == keys
            inside &= (label_times[place] >= times) & (label_times[place] <= times + self._horizon)
            found[inside] = self._label_values[place[inside]]
        return found

    def _sort_labels(self) -> None:
        """By key and time, equal ones in log order."""
        if not self._new_labels:
            return
        held = (self._label_keys, self._label_times, self._label_values)
        keys, times, values = map(np.concatenate, zip(held, *self._new_labels, strict=True))
        order = np.lexsort((times, keys))
        self._label_keys, self._label_times, self._label_values = keys[order], times[order], values[order]
        self._new_labels.clear()

    def _forget_labels(self, watermark: int | None) -> None:
        """Labels older than every row that may still come or waits are of no use."""
        if watermark is None:
            return
        oldest = min(int(self._times.min()), watermark) if len(self._times) else watermark
        keep = self._label_times >= oldest - self._horizon
        self._label_keys, self._label_times = self._label_keys[keep], self._label_times[keep]
        self._label_values = self._label_values[keep]


def label_keys(columns: Columns, labels: Labels) -> Int64s:
    """``(n,) int64`` id of each event's label key."""
    return evaluate(columns, Column(labels.key)).data


def label_events(columns: Columns, labels: Labels) -> tuple[Int64s, Int64s, Float64s]:
    """Ids of the keys, times and values of the labels among a slice's events; missing values are none."""
    carrying = columns.take(np.flatnonzero(evaluate(columns, labels.when).is_true()))
    value, key = evaluate(carrying, labels.value), evaluate(carrying, Column(labels.key))
    known = value.valid & key.valid
    return key.data[known], carrying.times[known], value.floats()[known]


def _search(
    sorted_keys: Int64s, sorted_times: Int64s, keys: Int64s, times: Int64s, *, side: Literal["left", "right"]
) -> Int64s:
    """``searchsorted`` over pairs (key, time)."""
    found = np.empty(len(keys), np.int64)
    search_pairs(sorted_keys, sorted_times, keys, times, side == "right", found)
    return found

"""Predictions: the record that is published for one scored event, and how a slice of them is written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.codecs.template import Fillings, JsonTemplate, Slot
from features.columns import Columns
from features.errors import Malformed
from features.kernels.emit import DIGEST, INTEGER, NUMBER, TEXT
from features.rows import Rows
from models.bisection import Answers

EVENT_TIME_HEADER = "headrace.event_time"
_OFFSET, _TIME, _KEY = range(3)
"""Columns of integers."""


class RecordPosition(msgspec.Struct, frozen=True):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


class Prediction(msgspec.Struct, frozen=True):
    """What is published for one event.

    Args:
        id: ``topic:partition:offset:pipeline`` of the source record; consumers keep the first of an id.
        key: The event's partition key.
        event_time: Milliseconds since the epoch.
        pipeline: The pipeline's name.
        model: The model's name.
        model_version: Its version.
        outputs: The model's outputs by name.
        features_digest: Sixteen hex digits; equal digests mean equal feature bits.
        label_key: What a label will name this case by.
        source: Where the event stands.
        degraded: Why the prediction is less than it should be, or null.
    """

    id: str
    key: str | int | None
    event_time: int
    pipeline: str
    model: str
    model_version: str
    outputs: dict[str, float | list[float]]
    features_digest: str
    label_key: str | None
    source: RecordPosition
    degraded: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionForm:
    """What is the same in every prediction of a worker.

    Args:
        pipeline: Name of the pipeline.
        topic: The source topic.
        model: Name of the model.
        version: Its version.
        key: The schema's partition key.
        label_key: The field that labels name a case by, or ``None``.
        outputs: Width of each output: 0 for a number, else the length of the list.
    """

    pipeline: str
    topic: str
    model: str
    version: str
    key: str
    label_key: str | None
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPredictions:
    """A slice's predictions as bytes.

    Args:
        values: The record of each row; void where it failed.
        event_times: Each row's event time in decimal, for the header.
        failed: By row, why its outputs can't be published.
    """

    values: Sequence[bytes]
    event_times: Sequence[bytes]
    failed: Mapping[int, Malformed]


class PredictionEncoder:
    """Writes predictions, a slice at a time; rows that a template can't write go through msgspec."""

    def __init__(self, form: PredictionForm) -> None:
        self.form = form
        self._templates: dict[tuple[int, type], JsonTemplate] = {}
        self._times = JsonTemplate([Slot(INTEGER, _TIME)])

    def encode(
        self,
        partition: int,
        offsets: NDArray[np.int64],
        columns: Columns,
        rows: Rows,
        outputs: Answers,
    ) -> EncodedPredictions:
        """The predictions of the rows; ``offsets`` is ``(rows,) int64`` of their source records."""
        scored = columns.take(rows.events)
        fillings = self._fillings(offsets, scored, rows, outputs)
        values, odd = self._template(partition, scored.schema[self.form.key].type).write(fillings)
        failed: dict[int, Malformed] = {}
        for row in odd:
            prediction = self._prediction(partition, scored, fillings, row)
            if problem := _unpublishable(prediction.outputs):
                failed[row] = problem
            else:
                values[row] = msgspec.json.encode(prediction)
        return EncodedPredictions(values=values, event_times=self._times.write(fillings)[0], failed=failed)

    def _fillings(
        self,
        offsets: NDArray[np.int64],
        scored: Columns,
        rows: Rows,
        outputs: Answers,
    ) -> Fillings:
        form, n = self.form, len(rows)
        numbers = [outputs[name].reshape(n, max(1, width)) for name, width in form.outputs.items()]
        always = np.ones(n, np.uint8)
        return Fillings(
            base=scored.base,
            texts=np.array([_refs(scored, form.key), _refs(scored, form.label_key)]),
            integers=np.array([offsets, scored.times, scored.word(form.key)]),
            valid=np.array([always, always, scored.is_valid(form.key)]),
            numbers=np.concatenate(numbers, axis=1, dtype=np.float32),
            digests=rows.digests(),
        )

    def _template(self, partition: int, key_type: type) -> JsonTemplate:
        if (partition, key_type) not in self._templates:
            self._templates[partition, key_type] = self._build(partition, key_type)
        return self._templates[partition, key_type]

    def _build(self, partition: int, key_type: type) -> JsonTemplate:
        form = self.form
        topic, pipeline = _inner(form.topic), _inner(form.pipeline)
        parts: list[bytes | Slot] = [
            b'{"id":"%b:%d:' % (topic, partition), Slot(INTEGER, _OFFSET), b':%b","key":' % pipeline,
            Slot(TEXT, 0) if key_type is str else Slot(INTEGER, _KEY),
            b',"event_time":', Slot(INTEGER, _TIME),
            b',"pipeline":"%b","model":"%b","model_version":"%b","outputs":{'
            % (pipeline, _inner(form.model), _inner(form.version)),
            *_output_parts(form.outputs),
            b'},"features_digest":', Slot(DIGEST), b',"label_key":', Slot(TEXT, 1),
            b',"source":{"topic":"%b","partition":%d,"offset":' % (topic, partition), Slot(INTEGER, _OFFSET),
            b'},"degraded":null}',
        ]  # fmt: skip
        return JsonTemplate(parts)

    def _prediction(self, partition: int, scored: Columns, fillings: Fillings, row: int) -> Prediction:
        """One row by hand."""
        form = self.form
        one = scored.take(np.array([row]))
        is_text = scored.schema[form.key].type is str
        key = one.texts(form.key)[0] if is_text else int(fillings.integers[_KEY, row])
        offset, numbers = int(fillings.integers[_OFFSET, row]), iter(fillings.numbers[row])
        return Prediction(
            id=f"{form.topic}:{partition}:{offset}:{form.pipeline}",
            key=key if one.is_valid(form.key)[0] else None,
            event_time=int(fillings.integers[_TIME, row]),
            pipeline=form.pipeline,
            model=form.model,
            model_version=form.version,
            outputs={
                name: [_shortest(next(numbers)) for _ in range(width)] if width else _shortest(next(numbers))
                for name, width in form.outputs.items()
            },
            features_digest=f"{int(fillings.digests[row]):016x}",
            label_key=None if form.label_key is None else one.texts(form.label_key)[0],
            source=RecordPosition(topic=form.topic, partition=partition, offset=offset),
            degraded=None,
        )


def _refs(scored: Columns, name: str | None) -> NDArray[np.int64]:
    """References of a text field, -1 for null; nulls for any other."""
    if name is None or scored.schema[name].type is not str:
        return np.full(len(scored), -1)
    return np.where(scored.is_valid(name).view(np.bool_), scored.word(name), -1)


def _output_parts(outputs: Mapping[str, int]) -> list[bytes | Slot]:
    parts: list[bytes | Slot] = []
    column = 0
    for name, width in outputs.items():
        parts.append(b'%b"%b":%b' % (b"," if parts else b"", _inner(name), b"[" if width else b""))
        for place in range(max(1, width)):
            parts += [b","] if place else []
            parts.append(Slot(NUMBER, column))
            column += 1
        parts += [b"]"] if width else []
    return parts


def _inner(text: str) -> bytes:
    """A text as it stands between the quotes of a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def _shortest(number: np.float32) -> float:
    """The double that is written with the fewest digits that read back to the float32."""
    return float(str(number))


def _unpublishable(outputs: Mapping[str, float | list[float]]) -> Malformed | None:
    for name, value in outputs.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(map(math.isfinite, numbers)):
            return Malformed("output_not_finite", f"the model's output {name!r} is {value}")
    return None

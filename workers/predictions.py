"""Predictions: the record that is published for one scored event, and how a slice of them is written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from features.byte_column import ByteColumn
from features.codecs.template import JsonTemplate, Slot
from features.columns import Columns
from features.engine import Engine
from features.errors import Malformed
from features.kernels.emit import (
    CATEGORY,
    DIGEST,
    FEATURE,
    HASHES,
    INTEGER,
    INTEGER_SAMPLE,
    NUMBER,
    OFFSET,
    SAMPLE_END,
    TEXT,
    TEXT_SAMPLE,
    TIME,
)
from features.logged import Features
from features.rows import Rows
from features.schema import Schema
from models.bisection import Answers

EVENT_TIME_HEADER = "headrace.event_time"


class RecordPosition(msgspec.Struct, frozen=True):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


class Prediction(msgspec.Struct, frozen=True, omit_defaults=True):
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
        features: What the model was given, of keys whose features are logged.
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
    features: Features | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFeatures:
    """Which features are written into predictions, and of which share of the keys.

    Args:
        floats: The float columns and
        categories: the category columns, as rows have them.
        share: Over 0, up to 1; a key's predictions all have them, or none.
    """

    floats: Sequence[str]
    categories: Sequence[str]
    share: float

    @classmethod
    def of(cls, engine: Engine, share: float) -> "LoggedFeatures | None":
        """All columns of an engine; ``None`` of no share."""
        if not share:
            return None
        return cls(floats=engine.float_columns, categories=engine.category_columns, share=share)


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
        logged: The features that are written as well, if any.
    """

    pipeline: str
    topic: str
    model: str
    version: str
    key: str
    label_key: str | None
    outputs: Mapping[str, int]
    logged: LoggedFeatures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPredictions:
    """A slice's predictions as bytes.

    Args:
        values: The record of each row; void where it failed.
        event_times: Each row's event time in decimal, for the header.
        failed: By row, why its outputs can't be published.
    """

    values: ByteColumn
    event_times: ByteColumn
    failed: Mapping[int, Malformed]


class PredictionEncoder:
    """Writes predictions, a slice at a time; rows that a template can't write go through msgspec."""

    def __init__(self, form: PredictionForm) -> None:
        self.form = form
        self._width = sum(max(1, width) for width in form.outputs.values())
        self._templates: dict[int, JsonTemplate] = {}

    def encode(
        self,
        partition: int,
        offsets: NDArray[np.int64],
        columns: Columns,
        rows: Rows,
        outputs: Answers,
    ) -> EncodedPredictions:
        """The predictions of the rows; ``offsets`` is ``(records,) int64`` of the slice that the columns came from."""
        numbers = self._numbers(outputs, len(rows))
        template = self._templates.get(partition) or self._build(partition, columns.schema)
        event_times, values = template.write(columns, rows, offsets, numbers)
        failed: dict[int, Malformed] = {}
        written: dict[int, bytes] = {}
        odd = np.flatnonzero(values.lengths == 0).tolist()
        for row in odd:
            event = columns.take(rows.events[row : row + 1])
            record = RecordPosition(self.form.topic, partition, int(offsets[event.positions[0]]))
            prediction = self._prediction(record, event, rows.alone(row), numbers[row])
            if problem := _unpublishable(prediction.outputs):
                failed[row] = problem
            else:
                written[row] = msgspec.json.encode(prediction)
        values = values.replaced(written) if written else values
        return EncodedPredictions(values=values, event_times=event_times, failed=failed)

    def _numbers(self, outputs: Answers, n: int) -> NDArray[np.float32]:
        """``(n, numbers) float32``: the outputs side by side."""
        numbers, first = np.empty((n, self._width), np.float32), 0
        for name, width in self.form.outputs.items():
            last = first + max(1, width)
            numbers[:, first:last] = outputs[name].reshape(n, last - first)
            first = last
        return numbers

    def _build(self, partition: int, schema: Schema) -> JsonTemplate:
        """The partition's template: the event time for the header, and the prediction."""
        form = self.form
        topic, pipeline = _inner(form.topic), _inner(form.pipeline)
        parts: list[bytes | Slot] = [
            b'{"id":"%b:%d:' % (topic, partition), Slot(OFFSET), b':%b","key":' % pipeline,
            Slot(TEXT if schema[form.key].type is str else INTEGER, schema.place(form.key)),
            b',"event_time":', Slot(TIME),
            b',"pipeline":"%b","model":"%b","model_version":"%b","outputs":{'
            % (pipeline, _inner(form.model), _inner(form.version)),
            *_output_parts(form.outputs),
            b'},"features_digest":', Slot(DIGEST), b',"label_key":', _label_key(form.label_key, schema),
            b',"source":{"topic":"%b","partition":%d,"offset":' % (topic, partition), Slot(OFFSET),
            b'},"degraded":null', *_logged_parts(form, schema, b',"features":'), b"}",
        ]  # fmt: skip
        template = self._templates[partition] = JsonTemplate([Slot(TIME)], parts)
        return template

    def _prediction(
        self, record: RecordPosition, event: Columns, row: Rows, numbers: NDArray[np.float32]
    ) -> Prediction:
        """One row by hand; ``event`` is its event alone."""
        form, left = self.form, iter(numbers)
        is_text = event.schema[form.key].type is str
        key = event.texts(form.key)[0] if is_text else int(event.word(form.key)[0])
        return Prediction(
            id=f"{record.topic}:{record.partition}:{record.offset}:{form.pipeline}",
            key=key if event.is_valid(form.key)[0] else None,
            event_time=int(event.times[0]),
            pipeline=form.pipeline,
            model=form.model,
            model_version=form.version,
            outputs={
                name: [_shortest(next(left)) for _ in range(width)] if width else _shortest(next(left))
                for name, width in form.outputs.items()
            },
            features_digest=f"{row.digests()[0]:016x}",
            label_key=None if form.label_key is None else event.texts(form.label_key)[0],
            source=record,
            degraded=None,
            features=self._features(event, row),
        )

    def _features(self, event: Columns, row: Rows) -> Features | None:
        """What is logged of one row."""
        template = JsonTemplate(_logged_parts(self.form, event.schema))
        (text,) = template.write(event, row, np.zeros(1, np.int64), np.empty((1, 0), np.float32))[0]
        return msgspec.json.decode(text, type=Features) if text else None


def _label_key(name: str | None, schema: Schema) -> bytes | Slot:
    """A text field, or null."""
    if name is None or schema[name].type is not str:
        return b"null"
    return Slot(TEXT, schema.place(name))


def _logged_parts(form: PredictionForm, schema: Schema, before: bytes = b"") -> list[bytes | Slot]:
    """The features as an object, for the keys that are sampled."""
    if form.logged is None:
        return []
    slots = [Slot(FEATURE, place) for place in range(len(form.logged.floats))]
    slots += [Slot(CATEGORY, place) for place in range(len(form.logged.categories))]
    parts: list[bytes | Slot] = [before + b"{"]
    for place, name in enumerate((*form.logged.floats, *form.logged.categories)):
        parts += [b'%b"%b":' % (b"," if place else b"", _inner(name)), slots[place]]
    parts.append(b"}")
    if form.logged.share >= 1:
        return parts
    sample = TEXT_SAMPLE if schema[form.key].type is str else INTEGER_SAMPLE
    return [Slot(sample, schema.place(form.key), int(form.logged.share * HASHES)), *parts, Slot(SAMPLE_END)]


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

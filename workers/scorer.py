"""The path of a slice through a score worker: decode, fold, rows, micro-batch, predictions, done."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from features.byte_column import ByteColumn
from features.columns import Int64s
from features.decode import RecordDecoder
from features.errors import Malformed
from models.bisection import Answers
from pipelines.pipeline import Pipeline
from workers.dead_letters import DeadLetterGuard, dead_letters
from workers.inference import Work
from workers.predictions import EVENT_TIME_HEADER, PredictionEncoder
from workers.states import StateKeeper
from workers.topics import SinkLimits
from workers.transport.outputs import HeaderColumns, OutputBatch
from workers.transport.slices import Slice
from workers.transport.stats import Histogram

_LONGEST_TRACE = 512
"""Bytes of one of them, by the recommendation."""
_LARGEST_PREDICTION = 500_000
"""Bytes; its Kafka key, which it holds as well, comes on top."""
_ROOM = 4096
"""Bytes for a prediction's headers."""

SourceHeaders = Sequence[tuple[str, bytes]] | None

_TRACE_HEADERS = ("traceparent", "tracestate")
"""W3C Trace Context, handed on from an event to its prediction."""


@dataclass(slots=True)
class ScorerStats:
    """Counters since the start, each with one writer.

    Args:
        events: Well-formed events folded.
        late: Of them, those too late to be folded.
        predictions: Predictions published.
        dead_letters: By stage and reason.
        own_time: From a slice's arrival to its rows, s.
        total_time: From a slice's arrival to its predictions being handed to delivery, s.
    """

    events: int = 0
    predictions: int = 0
    dead_letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    own_time: Histogram = field(default_factory=Histogram)
    total_time: Histogram = field(default_factory=Histogram)


class Scorer:
    """Turns slices into predictions.

    Args:
        pipeline: The declaration.
        states: State of the assigned partitions.
        clock: Seconds, monotonic.

    Attributes:
        encoder: Writes predictions; set when the model is loaded.
        limits: What the sinks take; set when they are checked.
        submit: Lets a slice's rows wait for the model; set when the inference thread is made.
    """

    encoder: PredictionEncoder
    limits: SinkLimits
    submit: Callable[[Work], None]

    def __init__(self, pipeline: Pipeline, states: StateKeeper, clock: Callable[[], float]) -> None:
        self._pipeline, self._states, self._clock = pipeline, states, clock
        self._decoder = RecordDecoder(pipeline.source.schema)
        self._records = DeadLetterGuard(pipeline.dead_letter_rule, "records")
        self._rows = DeadLetterGuard(pipeline.dead_letter_rule, "rows")
        self.stats = ScorerStats()

    def score(self, slice_: Slice) -> None:
        """Decode and fold a slice, and let its rows wait for the model; runs on the event loop."""
        started = self._clock()
        decoded = self._decoder.decode(slice_.records)
        self._records.observe(slice_.partition, len(slice_), decoded.malformed)
        rows = self._states.process(slice_.partition, decoded.columns, slice_.next_offset)
        self.stats.events += len(decoded.columns)
        letters = self._letters(slice_, decoded.malformed, "decode")
        self.stats.own_time.observe(self._clock() - started)
        if not len(rows):
            slice_.done(letters)
            return
        self.submit(Work(slice=slice_, columns=decoded.columns, rows=rows, letters=letters, since=started))

    def finish(self, work: Work, outputs: Answers, unanswered: Mapping[int, Malformed]) -> None:
        """Write a slice's predictions and hand them to delivery; runs in the inference thread."""
        slice_ = work.slice
        places = work.columns.positions[work.rows.events]
        encoded = self.encoder.encode(
            slice_.partition.number, slice_.offsets, work.columns, work.rows, outputs
        )
        unpublishable = {
            row: why
            for row, why in (*encoded.failed.items(), *_too_large(encoded.values, self._largest_prediction))
            if row not in unanswered
        }
        self._rows.observe(slice_.partition, len(work.rows), {**unanswered, **unpublishable})
        failed, letters = unanswered.keys() | unpublishable.keys(), list(work.letters)
        kept: Int64s | slice = slice(None)
        if failed:
            kept = np.array([row for row in range(len(work.rows)) if row not in failed], np.int64)
        for stage, rows in (("infer", unanswered), ("encode", unpublishable)):
            letters += self._letters(slice_, {int(places[row]): why for row, why in rows.items()}, stage)
        at = places[kept]
        predictions = OutputBatch(
            topic=self._pipeline.predictions,
            partition=slice_.partition.number,
            values=_chosen(encoded.values, kept),
            keys=slice_.keys.take(at),
            headers=_headers(_chosen(encoded.event_times, kept), slice_.headers, at),
        )
        slice_.done([predictions, *letters])
        self.stats.predictions += len(predictions)
        self.stats.total_time.observe(self._clock() - work.since)

    @property
    def _largest_prediction(self) -> int:
        return min(_LARGEST_PREDICTION, (self.limits.predictions - _ROOM) // 2)

    def _letters(self, slice_: Slice, malformed: Mapping[int, Malformed], stage: str) -> list[OutputBatch]:
        if not malformed:
            return []
        self.stats.dead_letters.update((stage, each.reason) for each in malformed.values())
        topic, name, largest = self._pipeline.dead_letters, self._pipeline.name, self.limits.dead_letters
        return [dead_letters(topic, name, slice_, malformed, stage, largest)]


def _too_large(values: ByteColumn, most: int) -> list[tuple[int, Malformed]]:
    """Predictions that the topic does not take: the record's key or label key is a text of some hundred kilobytes."""
    detail = "its prediction would have {} bytes, at most {} can be published: key or label key is too long"
    return [
        (row, Malformed("too_large", detail.format(int(values.lengths[row]), most)))
        for row in np.flatnonzero(values.lengths > most).tolist()
    ]


def _chosen(column: ByteColumn, places: Int64s | slice) -> ByteColumn:
    return column if isinstance(places, slice) else column.take(places)


def _headers(event_times: ByteColumn, sources: Sequence[SourceHeaders], at: Int64s) -> HeaderColumns:
    """Each prediction's own header, and what of its event's is handed on; ``at`` is ``(predictions,) int64``."""
    if not any(sources):
        return HeaderColumns.one(EVENT_TIME_HEADER, event_times)
    return HeaderColumns.of(
        [
            [
                (EVENT_TIME_HEADER, event_time),
                *(
                    (name, value)
                    for name, value in sources[place] or ()
                    if name in _TRACE_HEADERS and value is not None and len(value) <= _LONGEST_TRACE
                ),
            ]
            for event_time, place in zip(event_times, at.tolist(), strict=True)
        ]
    )

"""Parity of a running pipeline: what was published against what the log gives, from the topics alone."""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from features.decode import RecordDecoder
from features.parity import ParityReport, RowDigests, compare
from features.recorded import Recorded, in_log_order
from features.replay import Decoder, Replay, ReplayedSlice, decoded_records
from pipelines.pipeline import Pipeline
from workers.log import LogReader
from workers.predictions import RecordPosition
from workers.settings import Settings

Progress = Callable[[int], object]


class _Published(msgspec.Struct):
    """What parity needs of a prediction."""

    source: RecordPosition
    features_digest: str
    pipeline: str


def published_digests(pipeline: Pipeline, settings: Settings, progress: Progress) -> RowDigests:
    """Digests of every prediction in the predictions topic."""
    reader = LogReader(settings.clients(), pipeline.predictions)
    decoder = msgspec.json.Decoder(_Published)
    parts = []
    for _, records in reader.read(reader.everything()):
        found = [decoder.decode(value) for value in records.values if value is not None]
        found = [each for each in found if each.pipeline == pipeline.name]
        parts.append(
            RowDigests(
                partitions=np.array([each.source.partition for each in found], np.int64),
                offsets=np.array([each.source.offset for each in found], np.int64),
                digests=np.array([int(each.features_digest, 16) for each in found], np.uint64),
            )
        )
        progress(len(records))
    return RowDigests.join(parts)


def dead_letter_positions(pipeline: Pipeline, settings: Settings) -> set[tuple[int, int]]:
    """Partition and offset of every source record that the pipeline made a dead letter."""
    reader = LogReader(settings.clients(), pipeline.dead_letters)
    found = set()
    for _, messages in reader.messages(reader.everything()):
        for message in messages:
            headers = dict(message.headers() or ())
            topic, _, position = headers.get("headrace.source", b"").decode().rpartition(":")
            topic, _, partition = topic.rpartition(":")
            if topic == pipeline.source.topic and headers.get("headrace.pipeline") == pipeline.name.encode():
                found.add((int(partition), int(position)))
    return found


def topic_slices(pipeline: Pipeline, settings: Settings) -> Iterator[ReplayedSlice]:
    """The source topic, folded from its beginning."""
    reader = LogReader(settings.clients(), pipeline.source.topic)
    decoder = RecordDecoder(pipeline.source.schema)
    batches = (decoded_records(decoder, *each) for each in reader.read(reader.everything()))
    return Replay(pipeline.engine).fold(batches)


def archive_slices(pipeline: Pipeline, archive: Recorded) -> Iterator[ReplayedSlice]:
    """A raw archive of the source topic, folded."""
    archive, schema = in_log_order(archive), pipeline.source.schema
    decoder = Decoder(schema, archive, [field.name for field in schema.fields], pipeline.source.partitions)
    return Replay(pipeline.engine).fold(decoder.batches())


def recomputed_digests(slices: Iterator[ReplayedSlice], progress: Progress) -> RowDigests:
    """Digests of every scored row."""
    parts = []
    for piece in slices:
        parts.append(
            RowDigests(
                partitions=piece.batch.partitions[piece.events].astype(np.int64),
                offsets=piece.batch.offsets[piece.events],
                digests=piece.digests,
            )
        )
        progress(len(piece.batch.columns))
    return RowDigests.join(parts)


def parity(
    pipeline: Pipeline, settings: Settings, archive: Recorded | None, progress: Progress
) -> ParityReport:
    """Compare every prediction with its row recomputed from the source topic, or from an archive of it."""
    slices = topic_slices(pipeline, settings) if archive is None else archive_slices(pipeline, archive)
    recomputed = recomputed_digests(slices, progress)
    report = compare(published_digests(pipeline, settings, progress), recomputed)
    return report.without(dead_letter_positions(pipeline, settings)) if report.missing else report

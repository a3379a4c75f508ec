"""Parity of a running pipeline: what was published against what the log gives, from the topics alone."""

from collections.abc import Callable, Collection, Iterator

import msgspec
import numpy as np

from features.decode import RecordDecoder
from features.logged import Features, rows_of
from features.mismatch import PublishedRow
from features.parity import ParityReport, RowDigests, compare, explained
from features.recorded import Recorded, in_log_order
from features.replay import Decoder, Replay, ReplayedSlice, decoded_records
from pipelines.pipeline import Pipeline
from workers.log import LogReader
from workers.predictions import RecordPosition
from workers.settings import Settings

Progress = Callable[[int], object]


_EXPLAINED = 100_000
"""How many of the rows that differ are looked at column by column, the first."""


class _Published(msgspec.Struct):
    """What parity needs of a prediction."""

    source: RecordPosition
    features_digest: str
    pipeline: str
    features: Features | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Partition and offset of its event."""
        return self.source.partition, self.source.offset

    @property
    def digest(self) -> int:
        """Of its features."""
        return int(self.features_digest, 16)


def _published(pipeline: Pipeline, settings: Settings, progress: Progress) -> Iterator[list[_Published]]:
    """Every prediction in the predictions topic, in slices."""
    reader = LogReader(settings.clients(), pipeline.predictions)
    decoder = msgspec.json.Decoder(_Published)
    for _, records in reader.read(reader.everything()):
        found = [decoder.decode(value) for value in records.values if value is not None]
        yield [each for each in found if each.pipeline == pipeline.name]
        progress(len(records))


def published_digests(pipeline: Pipeline, settings: Settings, progress: Progress) -> RowDigests:
    """Digests of every prediction; one whose logged values have another digest counts with that as well."""
    columns = {*pipeline.engine.float_columns, *pipeline.engine.category_columns}
    parts = []
    for found in _published(pipeline, settings, progress):
        mine = [(each.position, each.digest) for each in found]
        logged = [each for each in found if each.features is not None and each.features.keys() == columns]
        digests = rows_of(pipeline.engine, [each.features or {} for each in logged]).digests().tolist()
        mine += [
            (each.position, digest)
            for each, digest in zip(logged, digests, strict=True)
            if digest != each.digest
        ]
        parts.append(
            RowDigests(
                partitions=np.array([partition for (partition, _), _ in mine], np.int64),
                offsets=np.array([offset for (_, offset), _ in mine], np.int64),
                digests=np.array([digest for _, digest in mine], np.uint64),
            )
        )
    return RowDigests.join(parts)


def published_rows(
    pipeline: Pipeline, settings: Settings, wanted: Collection[tuple[int, int]], progress: Progress
) -> dict[tuple[int, int], list[PublishedRow]]:
    """What was published of rows, by position."""
    rows: dict[tuple[int, int], list[PublishedRow]] = {}
    for found in _published(pipeline, settings, progress):
        for each in found:
            if each.position in wanted:
                rows.setdefault(each.position, []).append(
                    PublishedRow(digest=each.digest, features=each.features)
                )
    return rows


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

    def slices() -> Iterator[ReplayedSlice]:
        return topic_slices(pipeline, settings) if archive is None else archive_slices(pipeline, archive)

    recomputed = recomputed_digests(slices(), progress)
    report = compare(published_digests(pipeline, settings, progress), recomputed)
    if report.missing:
        report = report.without(dead_letter_positions(pipeline, settings))
    wanted = set(report.differing[:_EXPLAINED])
    rows = published_rows(pipeline, settings, wanted, progress) if wanted else {}
    return explained(report, pipeline.engine, slices, rows)

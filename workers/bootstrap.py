"""Bootstrap: recorded events, and then the topic, folded into ordinary checkpoints that workers go on from.

For windows longer than the topic's retention, for changed features, and for checkpoints that were lost. Each partition
is folded up to where its group goes on: the committed offset, or the oldest record if there is none.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from features.ahead import ahead
from features.columns import Columns
from features.decode import RecordDecoder
from features.errors import Misdeclared, Unavailable
from features.recorded import Recorded, in_log_order
from features.replay import Decoder
from features.saving import KEYS_A_STEP
from pipelines.pipeline import Pipeline
from workers.checkpoints.manifest import Checkpoint, Lineage
from workers.checkpoints.store import CheckpointStore
from workers.checkpoints.writing import Writing
from workers.log import LogReader, committed
from workers.settings import Settings
from workers.topics import Topics

Progress = Callable[[int], object]


@dataclass(slots=True)
class _Fold:
    """A partition's state on its way.

    Args:
        number: Of the partition.
        target: First offset that is not folded.
        low: The oldest offset that the topic holds.
        origin: First offset that was folded, ``None`` before that.
        next_offset: Where the fold stands.
    """

    number: int
    target: int
    low: int
    origin: int | None = None
    next_offset: int = 0


def bootstrap(
    pipeline: Pipeline, settings: Settings, group: str, archive: Recorded | None, progress: Progress
) -> list[Checkpoint]:
    """Write a checkpoint of every partition; returns them.

    Args:
        pipeline: The declaration.
        settings: Brokers, and where checkpoints are.
        group: The consumer group that goes on from them.
        archive: Recorded events of the topic, with the partitions and offsets that they had; ``None`` for none.
        progress: Told how many offsets were folded since the last call.

    Raises:
        Misdeclared: Archive and topic leave a gap, or the archive does not say where its events stood.
        Unavailable: Brokers or store can't be reached.
    """
    store, lineages = _store(settings), _lineages(pipeline, settings)
    folds = {
        number: _Fold(number, target, low)
        for number, (low, target) in _stretches(pipeline, settings, group).items()
    }
    states = {number: pipeline.engine.new_partition() for number in folds}

    def fold(number: int, columns: Columns, first: int, next_offset: int) -> None:
        it = folds[number]
        it.origin = first if it.origin is None else it.origin
        states[number].process(columns)
        it.next_offset = next_offset

    if archive is not None:
        for number, columns, offsets in _archived(pipeline, archive, folds):
            fold(number, columns, int(offsets[0]), int(offsets[-1]) + 1)
            progress(len(offsets))
        _check_gaps(pipeline.source.topic, folds)
    reader, decoder = (
        LogReader(settings.clients(), pipeline.source.topic),
        RecordDecoder(pipeline.source.schema),
    )
    ranges = {it.number: (max(it.low, it.next_offset), it.target) for it in folds.values()}
    for number, records in reader.read(ranges):
        fold(number, decoder.decode(records).columns, int(records.offsets[0]), int(records.offsets[-1]) + 1)
        progress(len(records))
    written = []
    for number, it in sorted(folds.items()):
        origin = min(it.low, it.target) if it.origin is None else it.origin
        writing = Writing(store, lineages(number), pipeline.engine.layout, origin)
        saving = states[number].begin_saving()
        writer = writing.begin(saving.watermark, it.target, everything=True)
        while not saving.is_done:
            saving.step(KEYS_A_STEP)
            writer.write(saving.take())
        written.append(writer.close(saving.take()))
    return written


def _store(settings: Settings) -> CheckpointStore:
    if settings.checkpoints == "none":
        raise Misdeclared("--checkpoints none keeps no states; name the folder or URI that the workers use")
    return CheckpointStore.at(settings.checkpoints)


def _lineages(pipeline: Pipeline, settings: Settings) -> Callable[[int], Lineage]:
    identity = Topics(settings.clients()).identity(pipeline.source.topic)
    if identity is None:
        raise Unavailable(
            f"The brokers don't tell the UUID of {pipeline.source.topic!r}: is it there, and are they of Kafka 2.8 or later?"
        )
    topic_id, partitions = identity
    state = pipeline.engine.state_fingerprint
    return lambda number: Lineage(pipeline.name, pipeline.source.topic, topic_id, partitions, state, number)


def _stretches(pipeline: Pipeline, settings: Settings, group: str) -> dict[int, tuple[int, int]]:
    """By partition, the oldest offset held, and where the group goes on."""
    topic = pipeline.source.topic
    lows = {number: low for number, (low, _) in LogReader(settings.clients(), topic).watermarks().items()}
    return {
        number: (lows[number], offset if offset >= 0 else lows[number])
        for number, (offset, _) in committed(settings.clients(), group, topic).items()
    }


def _archived(
    pipeline: Pipeline, archive: Recorded, folds: Mapping[int, _Fold]
) -> Iterator[tuple[int, Columns, np.ndarray]]:
    """The archive's events before each partition's target, a piece of one partition at a time, with their offsets."""
    names = set(archive.schema.names)
    if not {"partition", "offset"} <= names:
        raise Misdeclared(
            f"--from has no columns 'partition' and 'offset' (it has {', '.join(sorted(names)[:8])}): "
            "only an archive that says where each event stood in the topic goes on into it"
        )
    schema = pipeline.source.schema
    archive = in_log_order(archive)
    decoder = Decoder(schema, archive, [field.name for field in schema.fields], pipeline.source.partitions)
    for batch in ahead(decoder.batches()):
        if strange := sorted(set(np.unique(batch.partitions).tolist()) - folds.keys()):
            raise Misdeclared(
                f"--from holds events of partition {strange[0]}, and topic {pipeline.source.topic!r} has {len(folds)} partitions"
            )
        for number in np.unique(batch.partitions).tolist():
            chosen = np.flatnonzero((batch.partitions == number) & (batch.offsets < folds[number].target))
            if len(chosen):
                yield number, batch.columns.take(chosen), batch.offsets[chosen]


def _check_gaps(topic: str, folds: Mapping[int, _Fold]) -> None:
    for it in folds.values():
        if it.next_offset < min(it.low, it.target):
            raise Misdeclared(
                f"{topic}[{it.number}]: --from ends before offset {it.next_offset} and the topic begins at {it.low}: "
                f"offsets {it.next_offset} to {it.low - 1} are in neither; give an archive that holds them"
            )

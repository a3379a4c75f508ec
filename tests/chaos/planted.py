"""Workers with a mistake planted in them, to see that a campaign finds it: ``python -m tests.chaos.planted MISTAKE worker ...``."""

import dataclasses
import itertools
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from uuid import uuid4

import pyarrow as pa

from features.errors import Malformed
from features.saving import SavedPart
from models.bisection import Answers
from workers import cli
from workers.checkpoints.manifest import Checkpoint
from workers.checkpoints.store import CheckpointStore, FileWriter, read_parts
from workers.checkpoints.writing import Writer as CheckpointWriter
from workers.checkpoints.writing import Writing
from workers.inference import Work
from workers.scorer import Scorer
from workers.transport import exactly_once
from workers.transport.at_least_once import AtLeastOnce
from workers.transport.partitions import Commit
from workers.transport.progress import Span
from workers.transport.settings import TransportSettings
from workers.transport.writer import Writer
from workers.worker import Worker


def offset_before_output() -> None:
    """At least once: what is not sent yet counts as durable."""
    produce = AtLeastOnce.produce

    def too_late(self: AtLeastOnce, spans: list[Span], now: float) -> None:
        self._ledger.settle()
        time.sleep(0.3)
        produce(self, spans, now)

    AtLeastOnce.produce = too_late  # type: ignore[method-assign]


def dropped_slice() -> None:
    """One slice of fifty is done without its predictions."""
    finish, count = Scorer.finish, itertools.count(1)

    def forgetful(self: Scorer, work: Work, outputs: Answers, unanswered: Mapping[int, Malformed]) -> None:
        if next(count) % 50:
            finish(self, work, outputs, unanswered)
        else:
            work.slice.done([])

    Scorer.finish = forgetful  # type: ignore[method-assign]


def no_fencing() -> None:
    """Exactly once: every process has a transactional id of its own, and offsets are of no member of the group."""
    send_offsets, settings = Writer.send_offsets, Worker.transport_settings

    def of_nobody(self: Writer, commits: list[Commit], group: bytes, seconds: float) -> None:
        begin = group.index(b":") + 1
        name, _, instance = group[begin + 4 :].split(b"\0", 2)
        nobody = b"\0".join([name, b"", instance])
        send_offsets(self, commits, group[:begin] + struct.pack("=i", -1) + nobody, seconds)

    def of_its_own(self: Worker) -> TransportSettings:
        return dataclasses.replace(settings(self), transactional_id=f"nobody-{uuid4().hex}")

    exactly_once.generation = lambda _group: 0  # type: ignore[assignment]
    Writer.send_offsets = of_nobody  # type: ignore[method-assign,assignment]
    Worker.transport_settings = of_its_own  # type: ignore[method-assign]


def torn_checkpoint_accepted() -> None:
    """A part of a checkpoint is not in its file, and nobody looks."""
    write, count = FileWriter.write, itertools.count(1)

    def torn(self: FileWriter, part: SavedPart) -> None:
        if next(count) % 2:
            write(self, part)

    def unchecked(self: CheckpointStore, checkpoint: Checkpoint) -> Iterator[SavedPart]:
        for file in checkpoint.files:
            data: pa.Buffer = self._read(checkpoint.lineage, file.name)
            yield from read_parts(data)

    FileWriter.write = torn  # type: ignore[method-assign]
    CheckpointStore._parts = unchecked  # type: ignore[method-assign]


def state_ahead_of_offset() -> None:
    """A checkpoint holds a few events more than it says."""
    begin = Writing.begin

    def behind(self: Writing, watermark: int, next_offset: int, *, everything: bool) -> CheckpointWriter:
        return begin(self, watermark, max(0, next_offset - 20), everything=everything)

    Writing.begin = behind  # type: ignore[method-assign]


MISTAKES: dict[str, tuple[Callable[[], None], str]] = {
    "offset_before_output": (offset_before_output, "at_least_once"),
    "dropped_slice": (dropped_slice, "at_least_once"),
    "no_fencing": (no_fencing, "exactly_once"),
    "torn_checkpoint_accepted": (torn_checkpoint_accepted, "at_least_once"),
    "state_ahead_of_offset": (state_ahead_of_offset, "exactly_once"),
}
"""Each, and in which delivery mode it is made."""


if __name__ == "__main__":
    plant, _ = MISTAKES[sys.argv.pop(1)]
    plant()
    cli.main()

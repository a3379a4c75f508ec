"""Every pipeline's rows are the same bits however its stream is cut, and whatever becomes of its state meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.columns import Int64s
from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.records import Records
from features.rows import Rows
from features.saving import Snapshot
from tests.features import placed
from tests.parity.recordings import EVENTS, PIPELINES, Recording, recording

SIZES = (1, 2, 3, 17, 128, 700)
Step = tuple[int, str]


@pytest.fixture(scope="module", params=PIPELINES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recording(request.param, tmp_path_factory.mktemp("pipeline"))


@pytest.fixture(scope="module")
def logs(recorded: Recording) -> list[Records]:
    """The records of each partition."""
    source = recorded.pipeline.source
    return [log for _, log in placed.logs(recorded.events, source.schema, source.partitions)]


@pytest.fixture(scope="module")
def expected(recorded: Recording, logs: list[Records]) -> list[list[bytes]]:
    """The rows of each partition, folded in one piece."""
    engine = recorded.pipeline.engine
    return [list(Worker(engine, log).scored(len(log))) for log in logs]


@dataclass
class Worker:
    """One owner after another of a partition, each with what the one before left behind."""

    engine: Engine
    log: Records
    position: int = 0

    def __post_init__(self) -> None:
        self.decoder = RecordDecoder(self.engine.schema)
        self.state = self.engine.new_partition()
        self.checkpoint: tuple[int, Snapshot] = (0, self.state.snapshot())

    def scored(self, records: int) -> Iterator[bytes]:
        """Fold the next records; the bits of each row, after the offset of its event."""
        end = min(self.position + records, len(self.log))
        offsets, rows = self.fold(self.state, self.position, end)
        self.position = end
        for row, offset in enumerate(offsets.tolist()):
            yield b"%d " % offset + rows.block[row].tobytes() + rows.ids[row].tobytes()

    def fold(self, state: PartitionState, start: int, end: int) -> tuple[Int64s, Rows]:
        piece = slice_of(self.log, start, end)
        columns = self.decoder.decode(piece).columns
        rows = state.process(columns)
        return piece.offsets[columns.positions[rows.events]], rows

    def go_on(self) -> None:
        """Nothing happens."""

    def save(self) -> None:
        """A checkpoint is written."""
        self.checkpoint = self.position, self.state.snapshot()

    def restore(self) -> None:
        """The process dies; the next one restores the checkpoint and replays from there to the committed offset."""
        start, snapshot = self.checkpoint
        self.state = self.engine.new_partition()
        self.state.restore(snapshot)
        for first in range(start, self.position, 251):
            self.fold(self.state, first, min(first + 251, self.position))

    def rebuild(self) -> None:
        """The partition moves to a worker that has nothing: it replays all of it."""
        self.state = self.engine.new_partition()
        for first in range(0, self.position, 1009):
            self.fold(self.state, first, min(first + 1009, self.position))


def slice_of(log: Records, start: int, end: int) -> Records:
    return Records(
        values=log.values[start:end],
        keys=log.keys[start:end],
        offsets=log.offsets[start:end],
        timestamps=log.timestamps[start:end],
    )


steps = st.lists(
    st.tuples(st.sampled_from(SIZES), st.sampled_from(["go_on", "save", "restore", "rebuild"])),
    min_size=1,
    max_size=30,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_do_not_depend_on_cuts_restarts_and_rebalances(
    recorded: Recording, logs: list[Records], expected: list[list[bytes]], data: st.DataObject
) -> None:
    assert sum(map(len, logs)) == EVENTS
    partition = data.draw(st.integers(0, len(logs) - 1), "partition")
    life: list[Step] = data.draw(steps, "life")
    worker = Worker(recorded.pipeline.engine, logs[partition])
    found: list[bytes] = []
    for size, what in life:
        found += worker.scored(size)
        getattr(worker, what)()
    found += worker.scored(EVENTS)
    assert found == expected[partition]


def test_there_are_rows_that_state_and_the_event_alone_tell_apart(
    recorded: Recording, logs: list[Records], expected: list[list[bytes]]
) -> None:
    """The law above would say nothing of a stream without rows, or with one row over and over."""
    rows = [row.partition(b" ")[2] for row in chain(*expected)]
    assert len(rows) > EVENTS // 10
    assert len(set(rows)) > len(rows) // 2
    forgetful = recorded.pipeline.engine
    for log, wanted in zip(logs, expected, strict=True):
        found: list[bytes] = []
        worker = Worker(forgetful, log)
        while worker.position < len(log):
            worker.state = forgetful.new_partition()
            found += worker.scored(500)
        assert found != wanted
        assert np.mean([a == b for a, b in zip(found, wanted, strict=True)]) < 0.9

import threading
import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from features.errors import Malformed
from features.rows import Rows
from models.bisection import Answers, Block, Ids
from models.microbatch import BatchRule, Leave
from tests.features import streams
from workers.inference import Inference, Work

PATIENCE = 10.0


def work(rows: int, first: int = 0) -> Any:
    events = [{"card": "c", "ts": i, "kind": "x"} for i in range(rows)]
    block = np.arange(first, first + rows, dtype=np.float32).reshape(-1, 1)
    return Work(
        slice=None,  # type: ignore[arg-type]
        columns=streams.columns(streams.schema(), events),
        rows=Rows(block=block, ids=np.empty((rows, 0), np.int64), events=np.arange(rows)),
        letters=(),
        since=time.monotonic(),
    )


class Recorder:
    """A model that doubles, may be held, and fails at poisoned rows; and what came of each work."""

    def __init__(self, poison: frozenset[float] = frozenset(), *, is_well: bool = True) -> None:
        self.is_well = is_well
        self.batches: list[int] = []
        self.finished: list[tuple[list[float], list[int]]] = []
        self.errors: list[BaseException] = []
        self.may_run, self.is_running = threading.Event(), threading.Event()
        self.done = threading.Condition()
        self.may_run.set()
        self._poison = poison

    def predict(self, block: Block, ids: Ids) -> Answers:  # noqa: ARG002
        self.is_running.set()
        assert self.may_run.wait(PATIENCE)
        self.batches.append(len(block))
        if self._poison & set(block[:, 0].tolist()):
            raise Malformed("model_failed", "poison")
        return {"y": block[:, 0] * 2}

    def check(self) -> None:
        if not self.is_well:
            raise Malformed("model_failed", "the sample as well")

    def finish(self, done: Work, outputs: Answers, failed: Any) -> None:  # noqa: ARG002
        with self.done:
            self.finished.append((outputs["y"].tolist(), sorted(failed)))
            self.done.notify_all()

    def wait_for(self, works: int) -> None:
        with self.done:
            assert self.done.wait_for(lambda: len(self.finished) >= works, PATIENCE)

    def inference(self, rule: BatchRule) -> Inference:
        return Inference(
            self.predict,
            rule,
            check=self.check,
            finish=self.finish,
            on_error=self.errors.append,
            clock=time.monotonic,
        )


def test_while_one_batch_runs_the_next_one_forms() -> None:
    recorder = Recorder()
    inference = recorder.inference(BatchRule(max_rows=1024))
    recorder.may_run.clear()
    inference.start()
    inference.submit(work(3))
    assert recorder.is_running.wait(PATIENCE)
    for first in (10, 20, 30):
        inference.submit(work(5, first))
    assert inference.waiting_rows == 15
    recorder.may_run.set()
    recorder.wait_for(4)
    inference.stop(PATIENCE)
    assert recorder.batches == [3, 15]
    assert recorder.finished[2] == ([40.0, 42.0, 44.0, 46.0, 48.0], [])
    assert inference.stats.batches == {Leave.IDLE: 2}
    assert inference.stats.rows == 18


def test_a_full_batch_leaves_and_the_rest_stays() -> None:
    recorder = Recorder()
    inference = recorder.inference(BatchRule(max_rows=16, max_wait=timedelta(hours=1)))
    for first in range(5):
        inference.submit(work(6, first))
    inference.start()
    recorder.wait_for(4)
    assert recorder.batches == [12, 12]
    assert inference.waiting_rows == 6
    inference.stop(PATIENCE)
    assert recorder.batches == [12, 12, 6]


def test_a_partial_batch_leaves_when_its_oldest_row_is_due() -> None:
    recorder = Recorder()
    inference = recorder.inference(BatchRule(max_rows=1000, max_wait=timedelta(milliseconds=30)))
    inference.start()
    began = time.monotonic()
    inference.submit(work(2))
    recorder.wait_for(1)
    assert time.monotonic() - began >= 0.03
    assert inference.stats.batches == {Leave.DUE: 1}
    inference.stop(PATIENCE)


def test_a_row_at_which_the_model_fails_harms_only_itself() -> None:
    recorder = Recorder(poison=frozenset({11.0, 20.0}))
    inference = recorder.inference(BatchRule())
    for first in (0, 10, 20):
        inference.submit(work(3, first))
    inference.start()
    recorder.wait_for(3)
    inference.stop(PATIENCE)
    assert [failed for _, failed in recorder.finished] == [[], [1], [0]]
    assert recorder.finished[1][0][::2] == [20.0, 24.0]
    assert recorder.errors == []


def test_a_question_is_answered_between_two_batches() -> None:
    recorder = Recorder()
    inference = recorder.inference(BatchRule())
    inference.start()
    assert inference.ask(threading.current_thread, PATIENCE).name == "inference"
    recorder.may_run.clear()
    recorder.is_running.clear()
    inference.submit(work(1))
    assert recorder.is_running.wait(PATIENCE)
    with pytest.raises(TimeoutError):
        inference.ask(lambda: 1, 0.05)
    recorder.may_run.set()
    inference.stop(PATIENCE)


def test_a_row_that_is_alone_in_its_batch_and_at_fault_ends_nothing() -> None:
    recorder = Recorder(poison=frozenset({0.0}))
    inference = recorder.inference(BatchRule(max_rows=1))
    inference.submit(work(1))
    inference.submit(work(1, first=5))
    inference.start()
    recorder.wait_for(2)
    inference.stop(PATIENCE)
    assert [failed for _, failed in recorder.finished] == [[0], []]
    assert np.isnan(recorder.finished[0][0]).all()
    assert recorder.errors == []


def test_what_ends_the_thread_is_told() -> None:
    recorder = Recorder(poison=frozenset({0.0}), is_well=False)
    inference = recorder.inference(BatchRule())
    inference.submit(work(1))
    inference.start()
    inference.stop(PATIENCE)
    (error,) = recorder.errors
    assert isinstance(error, Malformed)
    assert not inference.is_alive

"""The inference thread: rows that wait, from all partitions, leave together when the runtime is free.

The event loop puts work in; the thread takes as much as the batch rule says, runs the model and hands
each piece of work its outputs. While one batch runs the next one forms.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from features.columns import Columns
from features.errors import Malformed
from features.rows import Rows
from models.bisection import Answers, Check, Predict, predict_bisecting
from models.microbatch import BatchRule, Leave
from workers.transport.outputs import OutputBatch
from workers.transport.slices import Slice
from workers.transport.stats import Histogram

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A slice whose rows wait for the model.

    Args:
        slice: Where its outputs go.
        columns: Its well-formed events.
        rows: Rows of the scored ones.
        letters: What is a dead letter already.
        since: When it began to wait, s.
    """

    slice: Slice
    columns: Columns
    rows: Rows
    letters: Sequence[OutputBatch]
    since: float


@dataclass(slots=True)
class InferenceStats:
    """Counters since the start, each with one writer.

    Args:
        rows: Rows that the model answered.
        batches: Micro-batches by why they left.
        sizes: Rows of each micro-batch.
        waited: From a slice's rows to their batch leaving, s.
        ran: Time in the model, s.
    """

    rows: int = 0
    batches: Counter[Leave] = field(default_factory=Counter)
    sizes: Histogram = field(
        default_factory=lambda: Histogram(bounds=tuple(float(2**i) for i in range(14)), counts=[0] * 15)
    )
    waited: Histogram = field(default_factory=Histogram)
    ran: Histogram = field(default_factory=Histogram)


class Inference:
    """Runs the model in a thread of its own.

    Args:
        predict: The model.
        check: Whether the model is well, when it failed at every row of a batch.
        rule: When a batch leaves.
        finish: Called in the thread with each work, its outputs, and by row why there are none.
        on_error: Called in the thread with what ended it.
        clock: Seconds, monotonic.
    """

    def __init__(  # noqa: PLR0913 - callbacks, by name
        self,
        predict: Predict,
        rule: BatchRule,
        *,
        check: Check,
        finish: Callable[[Work, Answers, Mapping[int, Malformed]], None],
        on_error: Callable[[BaseException], None],
        clock: Callable[[], float],
    ) -> None:
        self._predict, self._check, self._rule = predict, check, rule
        self._finish, self._on_error, self._clock = finish, on_error, clock
        self._waiting: deque[Work] = deque()
        self._questions: deque[Callable[[], None]] = deque()
        self._rows = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self.stats = InferenceStats()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Finish what waits, then end."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(timeout)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting_rows(self) -> int:
        """Rows that wait for the runtime."""
        return self._rows

    def submit(self, work: Work) -> None:
        """Let a slice's rows wait for the runtime."""
        with self._changed:
            self._waiting.append(work)
            self._rows += len(work.rows)
            self._changed.notify()

    def ask(self, question: Callable[[], Answer], timeout: float) -> Answer:
        """Have a question answered in the thread, between two batches; raises `TimeoutError`."""
        answer: Future[Answer] = Future()
        with self._changed:
            self._questions.append(lambda: answer.set_result(question()))
            self._changed.notify()
        return answer.result(timeout)

    def _run(self) -> None:
        try:
            while (step := self._next()) is not None:
                step()
        except BaseException as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._on_error(error)

    def _next(self) -> Callable[[], None] | None:
        """What to do next: answer a question, or score a batch; nothing when it is time to end."""
        with self._changed:
            while not self._questions:
                why = self._leaves()
                if why is not None:
                    self.stats.batches[why] += 1
                    return partial(self._score, self._take())
                if self._stopping:
                    return None
                self._changed.wait(self._patience())
            return self._questions.popleft()

    def _take(self) -> list[Work]:
        """The works of the next batch, the oldest first."""
        works, rows = [], 0
        while self._waiting and (not rows or rows + len(self._waiting[0].rows) <= self._rule.max_rows):
            works.append(self._waiting.popleft())
            rows += len(works[-1].rows)
        self._rows -= rows
        return works

    def _leaves(self) -> Leave | None:
        if not self._waiting:
            return None
        if self._stopping:
            return Leave.IDLE
        return self._rule.leaves(self._rows, self._waiting[0].since, self._clock())

    def _patience(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0].since + self._rule.max_wait.total_seconds() - self._clock())

    def _score(self, works: Sequence[Work]) -> None:
        started = self._clock()
        if len(works) == 1:
            block, ids = works[0].rows.block, works[0].rows.ids
        else:
            block = np.concatenate([work.rows.block for work in works])
            ids = np.concatenate([work.rows.ids for work in works])
        outputs, failed = predict_bisecting(self._predict, self._check, block, ids)
        self._count(works, len(block), started, self._clock())
        first = 0
        for work in works:
            last = first + len(work.rows)
            mine = {row - first: why for row, why in failed.items() if first <= row < last}
            self._finish(work, {name: values[first:last] for name, values in outputs.items()}, mine)
            first = last

    def _count(self, works: Sequence[Work], rows: int, started: float, ended: float) -> None:
        stats = self.stats
        stats.rows += rows
        stats.sizes.observe(rows)
        stats.ran.observe(ended - started)
        for work in works:
            stats.waited.observe(started - work.since)

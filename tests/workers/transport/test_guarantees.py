"""Both guarantees under what happens to workers and brokers, on Apache Kafka; each test runs both side by side."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.workers.transport.cluster import Cluster, eventually
from tests.workers.transport.conftest import MakePlan
from tests.workers.transport.plan import Plan
from tests.workers.transport.records import dealt, first_times, numbers
from tests.workers.transport.worker_process import WorkerProcess
from workers.brokers import KafkaBroker

pytestmark = pytest.mark.kafka

_COUNT = 6000
_QUICK = {"session.timeout.ms": 2_500, "producer.transaction.timeout.ms": 4_000}


class Copy:
    """One source, one group of workers in numbered slots, one target, under one guarantee."""

    def __init__(
        self, cluster: Cluster, make_plan: MakePlan, stack: ExitStack, *, exactly_once: bool, **wishes: object
    ) -> None:
        self.cluster = cluster
        self.exactly_once = exactly_once
        self.source, self.target = cluster.topic(), cluster.topic()
        cluster.fill(self.source, numbers(0, _COUNT))
        self._make_plan = make_plan
        self._stack = stack
        self._wishes = {"slice_records": 50, "seconds_a_slice": 0.05, "kafka": _QUICK, **wishes}
        self._group = self._plan(0).group

    def start(self, slot: int, **wishes: object) -> WorkerProcess:
        return self._stack.enter_context(WorkerProcess(self._plan(slot, group=self._group, **wishes)))

    def _plan(self, slot: int, **wishes: object) -> Plan:
        own = {"transactional_id": f"{self.source}-{slot}"} if self.exactly_once else {}
        return self._make_plan(self.cluster, {self.source: self.target}, **own, **{**self._wishes, **wishes})

    def finish(self, *workers: WorkerProcess) -> None:
        """Wait until everything is committed, restarting what ends by itself, as a supervisor does; then stop."""
        running = list(workers)

        def is_finished() -> bool:
            for index, worker in enumerate(running):
                if not worker.is_running:
                    running[index] = self._stack.enter_context(WorkerProcess(worker.plan))
            return self.cluster.offsets(self._group, self.source) == [_COUNT // 3] * 3

        eventually(is_finished, within=60, what=f"all committed of {self._group}")
        for worker in running:
            worker.wait_for("begin")
        assert [worker.terminate()[0] for worker in running] == [0] * len(running)

    def check(self, *, in_order: bool = True) -> None:
        """Exactly once: each record once, in order. At least once: each at least once, first times in order."""
        copied = self.cluster.values(self.target)
        if self.exactly_once:
            assert copied == dealt(numbers(0, _COUNT))
        elif in_order:
            assert [first_times(values) for values in copied] == dealt(numbers(0, _COUNT))
        else:
            assert [set(values) for values in copied] == [set(values) for values in dealt(numbers(0, _COUNT))]


@pytest.fixture
def copies(kafka: Cluster, make_plan: MakePlan) -> Iterator[tuple[Copy, Copy]]:
    with ExitStack() as stack:
        yield (
            Copy(kafka, make_plan, stack, exactly_once=False),
            Copy(kafka, make_plan, stack, exactly_once=True),
        )


def test_a_worker_is_killed_again_and_again(copies: tuple[Copy, Copy]) -> None:
    for slices in (10, 25):
        workers = [copy.start(0) for copy in copies]
        for worker in workers:
            worker.wait_for("slice", slices)
            worker.kill()
    for copy in copies:
        copy.finish(copy.start(0))
        copy.check()


def test_a_frozen_worker_comes_back_after_another_took_over(copies: tuple[Copy, Copy]) -> None:
    frozen = [copy.start(0) for copy in copies]
    for worker in frozen:
        worker.wait_for("slice", 25)
        worker.signal(signal.SIGSTOP)
    others = [copy.start(1) for copy in copies]
    for worker in others:
        worker.wait_for("slice", 5)
    for worker in frozen:
        worker.signal(signal.SIGCONT)
    for copy, zombie, other in zip(copies, frozen, others, strict=True):
        copy.finish(other, zombie)
        copy.check(in_order=False)
        assert zombie.events("lost") or not zombie.is_running


def test_a_second_worker_joins_and_the_first_leaves(copies: tuple[Copy, Copy]) -> None:
    first = [copy.start(0) for copy in copies]
    for worker in first:
        worker.wait_for("slice", 15)
    second = [copy.start(1) for copy in copies]
    for worker in second:
        worker.wait_for("assigned")
    for worker in first:
        code, seconds = worker.terminate()
        assert (code, seconds < 5) == (0, True)
    for copy, worker in zip(copies, second, strict=True):
        copy.finish(worker)
        copy.check()


def test_the_broker_crashes_and_comes_back(copies: tuple[Copy, Copy], kafka_broker: KafkaBroker) -> None:
    wishes = {"kafka": {"session.timeout.ms": 6_000}}
    workers = [copy.start(0, **wishes) for copy in copies]
    for worker in workers:
        worker.wait_for("slice", 25)
    kafka_broker.kill()
    kafka_broker.start()
    for copy, worker in zip(copies, workers, strict=True):
        copy.finish(worker)
        copy.check()

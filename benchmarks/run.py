"""The whole benchmark, step by step."""

import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from rich.console import Console

from benchmarks import model, offline, recovery
from benchmarks.cluster import Cluster
from benchmarks.contender import (
    AT_LEAST_ONCE,
    BARE,
    EXACTLY_ONCE,
    HANDWRITTEN,
    STOCK_FAUST,
    TWO_WORKERS,
    Contender,
    drawn_of,
)
from benchmarks.contenders.task import Task
from benchmarks.drawn import described
from benchmarks.drawn import drawn as drawn_pipeline
from benchmarks.events import SEED, made_up, payments_of, scored_offsets
from benchmarks.latency import Payments, Rounds, Sender
from benchmarks.predicted import Predicted, expected
from benchmarks.process import cpu_seconds
from benchmarks.ready import run_to_ready
from benchmarks.report import (
    BenchReport,
    LatencyRun,
    ReadyRun,
    Settings,
    ThroughputRun,
    latencies,
    medians,
    now,
    ratios,
    this_machine,
    versions,
)
from benchmarks.scaling.measure import measure
from benchmarks.scaling.report import form
from benchmarks.throughput import Race, is_telling
from pipelines.card_fraud import pipeline
from pipelines.datasets.card_payments import CARDS
from pipelines.replay import replay
from workers.brokers import KafkaBroker
from workers.ports import free_port
from workers.publisher import FlatOut, Publisher

RATES = (200, 1000)

_FITTED_ROWS = 10_000
_RACERS = (HANDWRITTEN, AT_LEAST_ONCE, EXACTLY_ONCE, TWO_WORKERS, STOCK_FAUST)
_TIMED = (BARE, AT_LEAST_ONCE, EXACTLY_ONCE)


@dataclass(slots=True, kw_only=True)
class Bench:
    """One run of everything on one broker.

    Args:
        settings: In which form.
        console: Where people look.
    """

    settings: Settings
    console: Console
    _runs: list[ThroughputRun] = field(default_factory=list)
    _latency_runs: list[LatencyRun] = field(default_factory=list)
    _ready_runs: list[ReadyRun] = field(default_factory=list)

    def run(self) -> BenchReport:
        """Measure; raises `WrongAnswers` when a contender's predictions are not right."""
        began, machine = time.monotonic(), this_machine()
        scaling = None
        if self.settings.scaling:
            scaling = measure(form(quick=self.settings.quick), self.console)
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, KafkaBroker() as broker:
            cluster = Cluster(broker.bootstrap)
            other = drawn_pipeline(self.settings.seed)
            cluster.create([other])
            task = _Tasks(cluster, Path(folder), model.register(pipeline, Path(folder)))
            self.console.print(f"Kafka at {broker.bootstrap}; making up {self.settings.events:,} events ...")
            events = made_up(self.settings.events)
            if self.settings.ready_runs:
                self._get_ready(task)
            if self.settings.repetitions:
                rows = replay(other, events)
                model.register_fitted(other, Path(folder), rows.slice(0, _FITTED_ROWS))
                Publisher(cluster.clients, pipeline.source.topic).publish([events], FlatOut())
                pid = broker._leash.pid or 0  # noqa: SLF001 - whose CPU counts beside the contender's
                self._race(
                    Race(
                        cluster=cluster,
                        due=scored_offsets(events),
                        broker_cpu=lambda: cpu_seconds(pid),
                    ),
                    task,
                    expected(other, Path(folder), rows),
                )
            recovered = self._recover(cluster)
            timed = payments_of(events)
            pairs = list(zip(timed["key"].to_pylist(), timed["value"].to_pylist(), strict=True))
            self._time(cluster, task, pairs)
        replayed = None
        if self.settings.offline_events:
            replayed = offline.measure(
                self.settings.offline_events, max(1, self.settings.repetitions), self.console.print
            )
        ratio, cpu_ratio = ratios(self._runs)
        return BenchReport(
            command=f"python -m benchmarks {shlex.join(sys.argv[1:])}".rstrip(),
            date=now(),
            seconds=time.monotonic() - began,
            settings=self.settings,
            machine=machine,
            versions=versions(),
            ratio=ratio,
            cpu_ratio=cpu_ratio,
            cpu_two_workers=1 / cpu_ratio["two_workers"] if "two_workers" in cpu_ratio else None,
            drawn=described(drawn_pipeline(self.settings.seed)) if self.settings.repetitions else {},
            ready_s=statistics.median(run.seconds for run in self._ready_runs) if self._ready_runs else None,
            ready_runs=self._ready_runs,
            scaling=scaling,
            throughput=medians(self._runs),
            latency_ms=latencies(self._latency_runs),
            runs=self._runs,
            latency_runs=self._latency_runs,
            offline=replayed,
            recovery=recovered,
        )

    def _recover(self, cluster: Cluster) -> recovery.Recovered | None:
        if not self.settings.scaling:
            return None
        replay_runs = None
        if self.settings.repetitions:
            replay_runs = recovery.measure_replay(pipeline, cluster.clients, self.settings.repetitions)
        keys = form(quick=self.settings.quick).keys
        found = recovery.Recovered(restored=recovery.measure_restore(keys), replay=replay_runs)
        for line in recovery.lines(found):
            self.console.print(line)
        return found

    def _get_ready(self, task: "_Tasks") -> None:
        """The first start, which may compile, does not count."""
        runs = [
            run_to_ready(AT_LEAST_ONCE, task.of(AT_LEAST_ONCE)) for _ in range(self.settings.ready_runs + 1)
        ]
        self._ready_runs = runs[1:]
        self.console.print(
            f"ready after {'; '.join(f'{run.seconds:.2f} s, {run.cpu_seconds:.2f} of CPU' for run in runs)}"
        )

    def _race(self, race: Race, task: "_Tasks", right_drawn: Predicted) -> None:
        """Every contender once in each repetition, each time in another order; before that one run to warm up."""
        every = sum(map(len, race.due.values()))
        drawn = drawn_of(self.settings.seed)
        _, right = race.run(HANDWRITTEN, task.of(HANDWRITTEN), every, 0, None)
        for repetition in range(1, self.settings.repetitions + 1):
            for contender in _rotated((*_RACERS, drawn), repetition - 1):
                wanted = min(self.settings.faust_events, every) if contender is STOCK_FAUST else every
                like = right_drawn if contender is drawn else right
                run, _ = race.run(contender, task.of(contender), wanted, repetition, like)
                if is_telling(run, wanted):
                    self._runs.append(run)
                self.console.print(
                    f"{repetition}. {contender.title}: {run.events_per_second:,.0f} events/s, "
                    f"{run.cpu_us_per_event:.2f} us CPU an event; others kept {run.other_cores:.2f} cores busy"
                    f"{'' if is_telling(run, wanted) else '; left out, too short'}"
                )

    def _time(self, cluster: Cluster, task: "_Tasks", events: Payments) -> None:
        rounds = Rounds(
            cluster=cluster,
            sender=Sender(cluster, events),
            rates=RATES,
            seconds=self.settings.latency_seconds,
        )
        for round_ in range(1, self.settings.latency_rounds + 1):
            for contender in _rotated(_TIMED, round_ - 1):
                runs = rounds.run(contender, task.of(contender), round_)
                self._latency_runs += runs
                said = ", ".join(f"{run.rate}/s p50 {run.p50:.1f} p99 {run.p99:.1f} ms" for run in runs)
                self.console.print(f"{round_}. {contender.title}: {said}")


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Makes the task of each run, with a new group."""

    cluster: Cluster
    registry: Path
    model: Path

    def of(self, contender: Contender) -> Task:
        return Task(
            bootstrap=self.cluster.bootstrap,
            group=f"{contender.name}-{uuid4().hex[:8]}",
            source=pipeline.source.topic,
            sink=contender.sink,
            registry=str(self.registry),
            model=str(self.model),
            admin_port=free_port(),
        )


def _rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    by %= len(contenders)
    return [*contenders[by:], *contenders[:by]]


def default_settings(*, quick: bool) -> Settings:
    """The whole form, some ten minutes on two quiet cores, or the short one."""
    return Settings(
        events=100_000 if quick else 400_000,
        faust_events=3_000 if quick else 10_000,
        cards=CARDS,
        partitions=pipeline.source.partitions,
        repetitions=1 if quick else 3,
        latency_rounds=1 if quick else 5,
        latency_seconds=2.0 if quick else 3.0,
        ready_runs=1 if quick else 3,
        scaling=True,
        quick=quick,
        seed=SEED,
        offline_events=200_000 if quick else 1_000_000,
    )

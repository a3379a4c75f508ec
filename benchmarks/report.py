"""The report: what was measured, where and how; ``bench-report.json``."""

import importlib.metadata
import os
import platform
import statistics
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.offline import Offline
from benchmarks.recovery import Recovered
from benchmarks.scaling.report import Scaling

PACKAGES = (
    "headrace",
    "confluent-kafka",
    "faust-streaming",
    "msgspec",
    "numba",
    "numpy",
    "onnxruntime",
    "polars",
    "pyarrow",
)


class Percentiles(msgspec.Struct, frozen=True):
    """Milliseconds; the median of several short runs."""

    p50: float
    p99: float


class ThroughputRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one contender on the full topic.

    Args:
        contender: Its name.
        repetition: From 1.
        events: Predictions that became visible in the measured span.
        seconds: Of the span.
        events_per_second: Their quotient.
        cpu_us_per_event: CPU time of the contender's processes, all threads.
        broker_cpu_us_per_event: CPU time of the broker meanwhile.
        other_cores: How many cores everybody else kept busy meanwhile, this benchmark's own look included; with much
            more than 0.1 the machine was not quiet, and the figures say less.
        repeated: Predictions beyond the first of an event, in the whole run.
    """

    contender: str
    repetition: int
    events: int
    seconds: float
    events_per_second: float
    cpu_us_per_event: float
    broker_cpu_us_per_event: float
    other_cores: float
    repeated: int


class LatencyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One short run of one contender at one rate.

    Args:
        contender: Its name.
        round: From 1.
        rate: Events a second.
        events: How many were timed.
        p50: From before produce to the prediction in the hands of a reader of committed records, ms.
        p99: As well.
        stages_ms: Of Headrace, mean time of each stage by its own metrics, ms.
    """

    contender: str
    round: int
    rate: int
    events: int
    p50: float
    p99: float
    stages_ms: dict[str, float]


class ReadyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a worker, compiled code in the cache.

    Args:
        seconds: From the start of its process to ``/ready`` answering 200.
        cpu_seconds: CPU time of the process until then; with much more seconds than that, others kept it waiting.
    """

    seconds: float
    cpu_seconds: float


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """A contender's medians over the repetitions."""

    events_per_second: float
    cpu_us_per_event: float
    broker_cpu_us_per_event: float
    other_cores: float


class RateLatency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Latency at one rate: Headrace at least once, and beside it the others that were measured.

    Args:
        p50: Of Headrace at least once.
        p99: Of Headrace at least once.
        bare: Of a loop with the same clients that does no work.
        exactly_once: Of Headrace exactly once.
        handwritten: Of the hand-written loop.
        stages_ms: Of Headrace at least once, mean time of each stage.
    """

    p50: float
    p99: float
    bare: Percentiles
    exactly_once: Percentiles | None = None
    handwritten: Percentiles | None = None
    stages_ms: dict[str, float] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What it ran on, and how busy that was before."""

    cores: int
    processor: str
    system: str
    load_before: float


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the run; see ``--help``."""

    events: int
    faust_events: int
    cards: int
    partitions: int
    repetitions: int
    latency_rounds: int
    latency_seconds: float
    ready_runs: int
    scaling: bool
    quick: bool
    seed: int
    offline_events: int = 0


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; ratios are medians over repetitions of the quotient within one repetition.

    Args:
        command: What measured it.
        date: When, UTC.
        seconds: How long it took.
        settings: In which form.
        machine: Where.
        versions: Of the packages.
        ratio: Of events a second: ``handwritten`` and ``stock_faust`` are Headrace at least once over that one,
            ``exactly_once`` is exactly once over at least once, ``drawn`` is Headrace at least once with 12 features
            drawn by seed from all kinds over the hand-written loop with its own, ``two_workers`` is two processes in
            one group over one, both at least once.
        cpu_ratio: The same of the CPU an event takes, the other way round: more than 1 is cheaper.
        cpu_two_workers: The CPU an event takes in two processes over that in one; the goal is 1.1 at most.
        drawn: Names and declarations of the drawn features.
        ready_s: From a worker's start to its being ready, compiled code in the cache, median of ``ready_runs``.
        scaling: How the engine's cost and memory grow.
        throughput: Medians by contender.
        latency_ms: By events a second.
        runs: Every run on the full topic whose span holds a quarter of the events; that of two workers begins late.
        latency_runs: Every short run.
        offline: Replay from Parquet; see `benchmarks.offline`.
        recovery: State replayed and loaded; see `benchmarks.recovery`.
    """

    command: str
    date: datetime
    seconds: float
    settings: Settings
    machine: Machine
    versions: dict[str, str]
    ratio: dict[str, float]
    cpu_ratio: dict[str, float]
    cpu_two_workers: float | None = None
    drawn: dict[str, dict[str, Any]] = {}
    ready_s: float | None = None
    ready_runs: list[ReadyRun] = []
    scaling: Scaling | None = None
    throughput: dict[str, Throughput]
    latency_ms: dict[str, RateLatency]
    runs: list[ThroughputRun]
    latency_runs: list[LatencyRun]
    offline: Offline | None = None
    recovery: Recovered | None = None

    def write(self, path: Path) -> None:
        """As indented JSON."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")


_RATIOS = {
    "handwritten": ("at_least_once", "handwritten"),
    "exactly_once": ("exactly_once", "at_least_once"),
    "stock_faust": ("at_least_once", "stock_faust"),
    "drawn": ("drawn", "handwritten"),
    "two_workers": ("two_workers", "at_least_once"),
}
"""Name of each ratio, and which contender is over which."""


def ratios(runs: Iterable[ThroughputRun]) -> tuple[dict[str, float], dict[str, float]]:
    """``ratio`` and ``cpu_ratio`` of a report; those whose contenders did not run are left out."""
    by_repetition: dict[int, dict[str, ThroughputRun]] = {}
    for run in runs:
        by_repetition.setdefault(run.repetition, {})[run.contender] = run
    speed, cpu = {}, {}
    for name, (upper, lower) in _RATIOS.items():
        pairs = [
            (mine[upper], mine[lower]) for mine in by_repetition.values() if upper in mine and lower in mine
        ]
        if pairs:
            speed[name] = statistics.median(a.events_per_second / b.events_per_second for a, b in pairs)
            cpu[name] = statistics.median(b.cpu_us_per_event / a.cpu_us_per_event for a, b in pairs)
    return speed, cpu


def medians(runs: Iterable[ThroughputRun]) -> dict[str, Throughput]:
    """By contender."""
    by_contender: dict[str, list[ThroughputRun]] = {}
    for run in runs:
        by_contender.setdefault(run.contender, []).append(run)
    return {
        name: Throughput(
            events_per_second=statistics.median(run.events_per_second for run in mine),
            cpu_us_per_event=statistics.median(run.cpu_us_per_event for run in mine),
            broker_cpu_us_per_event=statistics.median(run.broker_cpu_us_per_event for run in mine),
            other_cores=statistics.median(run.other_cores for run in mine),
        )
        for name, mine in by_contender.items()
    }


def latencies(runs: Iterable[LatencyRun]) -> dict[str, RateLatency]:
    """By rate; needs runs of Headrace at least once and of the bare loop."""
    by_rate: dict[int, dict[str, list[LatencyRun]]] = {}
    for run in runs:
        by_rate.setdefault(run.rate, {}).setdefault(run.contender, []).append(run)
    return {str(rate): _latency(mine) for rate, mine in sorted(by_rate.items())}


def _latency(runs: Mapping[str, list[LatencyRun]]) -> RateLatency:
    found = {name: _percentiles(mine) for name, mine in runs.items()}
    ours = runs["at_least_once"]
    return RateLatency(
        p50=found["at_least_once"].p50,
        p99=found["at_least_once"].p99,
        bare=found["bare"],
        exactly_once=found.get("exactly_once"),
        handwritten=found.get("handwritten"),
        stages_ms={
            stage: statistics.median(run.stages_ms[stage] for run in ours) for stage in ours[0].stages_ms
        },
    )


def _percentiles(runs: list[LatencyRun]) -> Percentiles:
    return Percentiles(
        p50=statistics.median(run.p50 for run in runs), p99=statistics.median(run.p99 for run in runs)
    )


def this_machine() -> Machine:
    """The machine this runs on, now."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        system=platform.platform(),
        load_before=os.getloadavg()[0],
    )


def versions() -> dict[str, str]:
    """Of Python and the packages that matter."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def now() -> datetime:
    """To the second, UTC."""
    return datetime.now(UTC).replace(microsecond=0)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()

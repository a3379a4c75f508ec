from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from benchmarks.report import (
    BenchReport,
    LatencyRun,
    ThroughputRun,
    latencies,
    medians,
    ratios,
    this_machine,
    versions,
)
from benchmarks.run import default_settings


def run(contender: str, repetition: int, speed: float, cpu: float) -> ThroughputRun:
    return ThroughputRun(
        contender=contender,
        repetition=repetition,
        events=1000,
        seconds=1000 / speed,
        events_per_second=speed,
        cpu_us_per_event=cpu,
        broker_cpu_us_per_event=1.0,
        other_cores=0.0,
        repeated=0,
    )


def short_run(contender: str, round_: int, p50: float, p99: float) -> LatencyRun:
    stages = {"own": p50 / 2} if contender == "at_least_once" else {}
    return LatencyRun(
        contender=contender, round=round_, rate=200, events=10, p50=p50, p99=p99, stages_ms=stages
    )


RUNS = [
    run("handwritten", 1, 100.0, 6.0), run("at_least_once", 1, 150.0, 3.0), run("exactly_once", 1, 120.0, 4.0),
    run("handwritten", 2, 10.0, 6.0), run("at_least_once", 2, 12.0, 4.0), run("exactly_once", 2, 12.0, 4.0),
    run("handwritten", 3, 100.0, 6.0), run("at_least_once", 3, 130.0, 2.0), run("exactly_once", 3, 117.0, 4.0),
]  # fmt: skip


def test_a_ratio_is_the_median_of_the_quotients_within_a_repetition() -> None:
    ratio, cpu_ratio = ratios(RUNS)
    assert ratio == pytest.approx({"handwritten": 1.3, "exactly_once": 0.9})
    assert cpu_ratio == pytest.approx({"handwritten": 2.0, "exactly_once": 0.75})


def test_a_contender_that_did_not_run_has_no_ratio() -> None:
    assert "stock_faust" not in ratios(RUNS)[0]


def test_latency_is_the_median_of_the_short_runs_with_the_bare_loop_beside_it() -> None:
    found = latencies([
        *(short_run("at_least_once", i, p50, p99) for i, p50, p99 in ((1, 2.0, 9.0), (2, 4.0, 5.0), (3, 3.0, 90.0))),
        *(short_run("bare", i, 1.0, 2.0) for i in (1, 2, 3)),
    ])  # fmt: skip
    latency = found["200"]
    assert (latency.p50, latency.p99, latency.bare.p99) == (3.0, 9.0, 2.0)
    assert latency.stages_ms == {"own": 1.5}
    assert latency.exactly_once is None


def test_the_report_has_the_keys_that_are_promised(tmp_path: Path) -> None:
    ratio, cpu_ratio = ratios(RUNS)
    timed = [short_run("at_least_once", 1, 2.0, 3.0), short_run("bare", 1, 1.0, 2.0)]
    report = BenchReport(
        command="python -m benchmarks",
        date=datetime(2024, 1, 1, tzinfo=UTC),
        seconds=1.0,
        settings=default_settings(quick=True),
        machine=this_machine(),
        versions=versions(),
        ratio=ratio,
        cpu_ratio=cpu_ratio,
        throughput=medians(RUNS),
        latency_ms=latencies(timed),
        runs=RUNS,
        latency_runs=timed,
    )
    report.write(tmp_path / "report.json")
    data = (tmp_path / "report.json").read_bytes()
    plain = msgspec.json.decode(data)
    assert plain["ratio"]["handwritten"] == pytest.approx(1.3)
    assert plain["latency_ms"]["200"]["p50"] == 2.0
    assert plain["latency_ms"]["200"]["bare"] == {"p50": 1.0, "p99": 2.0}
    assert len(plain["runs"]) == len(RUNS)
    assert msgspec.json.decode(data, type=BenchReport) == report

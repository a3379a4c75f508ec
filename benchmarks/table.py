"""The report for people."""

import statistics

from rich.console import Console
from rich.table import Table

from benchmarks import recovery
from benchmarks.contender import AT_LEAST_ONCE, BARE, EXACTLY_ONCE, HANDWRITTEN, STOCK_FAUST, TWO_WORKERS
from benchmarks.drawn import NAME as DRAWN
from benchmarks.offline import lines
from benchmarks.report import BenchReport, Percentiles
from benchmarks.scaling import table as scaling

SKETCH_CPU_US = 5.99
"""CPU of the hand-written loop that the engine's design was measured against, us an event, on other events."""

_CONTENDERS = (HANDWRITTEN, AT_LEAST_ONCE, EXACTLY_ONCE, TWO_WORKERS, STOCK_FAUST, BARE)
_TITLES = {**{each.name: each.title for each in _CONTENDERS}, DRAWN: "Headrace, features drawn by seed"}


def show(report: BenchReport, console: Console) -> None:
    """Print the tables."""
    if report.throughput:
        _show_race(report, console)
    if report.ready_s is not None:
        cpu = statistics.median(run.cpu_seconds for run in report.ready_runs)
        console.print(f"ready after {report.ready_s:.2f} s (goal ≤ 3), {cpu:.2f} s of CPU")
    if report.scaling is not None:
        scaling.show(report.scaling, console)
    if report.latency_ms:
        console.print(_latency(report))
        for rate, found in report.latency_ms.items():
            stages = ", ".join(f"{stage} {value:.2f}" for stage, value in found.stages_ms.items())
            console.print(f"stages at {rate}/s, mean ms: {stages}")
    for line in lines(report.offline) if report.offline is not None else ():
        console.print(line)
    for line in recovery.lines(report.recovery) if report.recovery is not None else ():
        console.print(line)


def _show_race(report: BenchReport, console: Console) -> None:
    console.print(_throughput(report))
    for name, value in report.ratio.items():
        console.print(f"ratio.{name} {value:.2f}  (by CPU {report.cpu_ratio[name]:.2f})")
    if HANDWRITTEN.name in report.throughput:
        cpu = report.throughput[HANDWRITTEN.name].cpu_us_per_event
        console.print(
            f"hand-written loop: {cpu:.2f} us CPU an event, and {SKETCH_CPU_US} in the design's trial"
        )
    if report.cpu_two_workers is not None:
        console.print(f"CPU an event, two workers over one: {report.cpu_two_workers:.2f} (goal ≤ 1.1)")
    if report.drawn:
        console.print(f"drawn by seed {report.settings.seed}: {', '.join(report.drawn)}")


def _throughput(report: BenchReport) -> Table:
    table = Table(
        title=f"{report.settings.events:,} events, {report.settings.repetitions} repetitions, medians"
    )
    for heading in ("", "events/s", "CPU us/event", "broker us/event", "others, cores"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, found in report.throughput.items():
        table.add_row(
            _TITLES[name],
            f"{found.events_per_second:,.0f}",
            f"{found.cpu_us_per_event:.2f}",
            f"{found.broker_cpu_us_per_event:.2f}",
            f"{found.other_cores:.2f}",
        )
    return table


def _latency(report: BenchReport) -> Table:
    table = Table(title=f"produce to prediction visible, ms, median of {report.settings.latency_rounds} runs")
    for heading in ("", *(f"{rate}/s {what}" for rate in report.latency_ms for what in ("p50", "p99"))):
        table.add_column(heading, justify="right" if heading else "left")
    found = list(report.latency_ms.values())
    rows: dict[str, list[Percentiles | None]] = {
        BARE.name: [each.bare for each in found],
        AT_LEAST_ONCE.name: [Percentiles(each.p50, each.p99) for each in found],
        EXACTLY_ONCE.name: [each.exactly_once for each in found],
        HANDWRITTEN.name: [each.handwritten for each in found],
    }
    for name, row in rows.items():
        present = [each for each in row if each is not None]
        if present:
            table.add_row(_TITLES[name], *(f"{ms:.1f}" for each in present for ms in (each.p50, each.p99)))
    return table

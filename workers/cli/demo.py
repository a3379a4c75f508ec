"""``headrace demo``: the whole path on real flights."""

from pathlib import Path

import click
from rich.console import Console

from workers.cli.options import settings_options
from workers.demo.run import Demo
from workers.settings import Settings


@click.command("demo")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("demo-report.json"),
    show_default=True,
    help="Report to write.",
)
@settings_options("registry", "kafka")
def command(settings: Settings, *, report: Path) -> None:
    """Run broker, worker and publisher on this machine, on the flights of 2013; fails if a promise is broken."""
    console = Console()
    found = Demo(settings=settings, console=console, report=report).run()
    console.print(
        f"{found.events:,} events, {found.predictions:,} predictions, {found.dead_letters:,} dead letters"
    )
    console.print(
        f"{found.events_per_second:,.0f} events/s flat out; at 1,000/s p50 {found.latency_ms.p50:.1f} ms, p99 {found.latency_ms.p99:.1f} ms"
    )
    console.print(
        f"AUC {found.auc:.4f} on the test span; parity: {found.parity.rows:,} rows, {found.parity.mismatches} mismatches"
    )
    console.print(f"{found.seconds:.0f} s in all; {report}")

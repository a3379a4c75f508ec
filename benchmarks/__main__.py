"""``python -m benchmarks``: run it, print it, write ``bench-report.json``."""

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from benchmarks.run import Bench, default_settings
from benchmarks.table import show
from features.errors import HeadraceError


@click.command()
@click.option("--quick", is_flag=True, help="A short form, to see that it works; its figures mean little.")
@click.option(
    "--events",
    type=click.IntRange(min=1000),
    help="Events in the topic; all but the chargebacks are scored in each run.",
)
@click.option(
    "--faust-events", type=click.IntRange(min=100), help="Of them, those for stock Faust, which is slow."
)
@click.option(
    "--repetitions", type=click.IntRange(min=0), help="Runs of every contender; 0 for latency alone."
)
@click.option(
    "--latency-rounds", type=click.IntRange(min=0), help="Short runs at each rate; 0 for throughput alone."
)
@click.option("--latency-seconds", type=click.FloatRange(min=0.5), help="Length of each short run.")
@click.option("--ready-runs", type=click.IntRange(min=0), help="Timed starts of a worker, after one more.")
@click.option(
    "--scaling/--no-scaling",
    default=None,
    help="Whether to measure how the engine's cost and memory grow, or that is left out.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the 12 features drawn from all kinds.")
@click.option(
    "--offline-events", type=click.IntRange(min=0), help="Events that are replayed from Parquet; 0 for none."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("bench-report.json"),
    show_default=True,
    help="Report to write.",
)
def main(report: Path, *, quick: bool, **given: float | None) -> None:
    """Measure Headrace beside other ways to do the same work, on one real Kafka in one run."""
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = msgspec.structs.replace(default_settings(quick=quick), **chosen)
    console = Console()
    try:
        found = Bench(settings=settings, console=console).run()
    except HeadraceError as error:
        click.echo(f"benchmarks: {error}", err=True)
        sys.exit(1)
    found.write(report)
    show(found, console)
    console.print(f"{found.seconds:.0f} s in all; {report}")


if __name__ == "__main__":
    main()

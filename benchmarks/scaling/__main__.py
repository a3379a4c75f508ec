"""``python -m benchmarks.scaling``: measure it, print it, write it."""

from pathlib import Path

import click
import msgspec
from rich.console import Console

from benchmarks.scaling.measure import measure
from benchmarks.scaling.report import form
from benchmarks.scaling.table import show


@click.command()
@click.option("--quick", is_flag=True, help="A short form, to see that it works.")
@click.option(
    "--report", type=click.Path(path_type=Path), help="Where to write what was found, as JSON.", default=None
)
def main(report: Path | None, *, quick: bool) -> None:
    """Measure how the engine's cost and memory grow."""
    console = Console()
    found = measure(form(quick=quick), console)
    show(found, console)
    if report is not None:
        report.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()

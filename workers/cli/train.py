"""``headrace train PIPELINE``: replay, train, register."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, TaskID

from features.errors import Misdeclared
from features.recorded import read_table
from models.registry import Registry
from pipelines.pipeline import Pipeline
from pipelines.training import train_pipeline
from workers.cli.options import pipeline_argument, settings_options
from workers.events import recorded
from workers.settings import Settings


@click.command("train")
@pipeline_argument
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Recorded events; by default the pipeline's example events.",
)
@click.option("--revision", help="Revision of the code, for the lineage; by default what git says.")
@settings_options("registry")
def command(pipeline: Pipeline, settings: Settings, *, source: Path | None, revision: str | None) -> None:
    """Train the model of PIPELINE on recorded events, as it declares, and register it."""
    if source is None and pipeline.example is None:
        raise Misdeclared(f"Pipeline {pipeline.name!r} has no example events; give --from FILE")
    table = read_table(recorded(pipeline, source)) if source is not None else pipeline.example()  # type: ignore[misc]
    console = Console(stderr=True)
    registry = Registry.at(settings.registry)
    with Progress(console=console, disable=not console.is_terminal) as bars:
        shown: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in shown:
                shown[what] = bars.add_task(what, total=total)
            bars.update(shown[what], completed=done)

        ref = train_pipeline(
            pipeline,
            table,
            registry,
            created=datetime.now(UTC),
            revision=revision or _revision(),
            progress=progress,
        )
    training = registry.manifest(ref.name, ref.version).training
    assert training is not None
    assert training.baseline is not None
    click.echo(f"{ref} is registered in {settings.registry}")
    for what, quality in (
        ("model", training.metrics),
        ("without streaming features", training.baseline.metrics),
    ):
        click.echo(
            f"{what:<28} AUC {quality.auc:.4f}  log loss {quality.log_loss:.4f}  Brier {quality.brier:.4f}  "
            f"ECE {quality.ece:.4f}  on {quality.rows} rows"
        )


def _revision() -> str | None:
    """What git says of the working folder's code, or nothing."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    return done.stdout.strip() or None

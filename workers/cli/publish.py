"""``headrace publish PIPELINE``: recorded events to its source topic."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pyarrow as pa

from features.errors import Misdeclared
from pipelines import catalog
from pipelines.example import MadeUp
from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.events import publishable
from workers.publisher import FlatOut, Pace, Publisher, Rate, Speedup
from workers.settings import Settings
from workers.topics import Topics


@click.command("publish")
@pipeline_argument
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Parquet file or folder, or a file of JSON lines; by default the pipeline's example events.",
)
@click.option("--rate", type=float, help="Events a second; by default as fast as the broker takes them.")
@click.option("--speedup", type=float, help="As fast as the events happened, times this.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many events.")
@click.option("--events", type=click.IntRange(min=1), help="How many example events are made up.")
@click.option(
    "--seed", type=click.IntRange(min=0), help="From which seed: the same events for the same seed."
)
@settings_options(*CLIENT)
def command(  # noqa: PLR0913 - one parameter an option
    pipeline: Pipeline,
    settings: Settings,
    *,
    source: Path | None,
    rate: float | None,
    speedup: float | None,
    limit: int | None,
    events: int | None,
    seed: int | None,
) -> None:
    """Write recorded or made-up events to the source topic of PIPELINE, in order, keyed by its partition key."""
    pace = _pace(rate, speedup)
    if events is not None or seed is not None:
        _check_is_made_up(pipeline, source)
    count, tables = events_of(pipeline, source, events, seed, limit)
    if Topics(settings.clients()).state(pipeline.source.topic) is None:
        raise Misdeclared(
            f"Topic {pipeline.source.topic!r} is not there; create it with: headrace topics {catalog.reference(pipeline)} --create"
        )
    publisher = Publisher(settings.clients(), pipeline.source.topic)
    with progress_bar(f"publish to {pipeline.source.topic}", count) as progress:
        published = publisher.publish(tables, pace, progress)
    click.echo(f"{published} events published to {pipeline.source.topic}")


def events_of(
    pipeline: Pipeline, source: Path | None, events: int | None, seed: int | None, limit: int | None
) -> tuple[int, Iterable[pa.Table]]:
    """How many events are to be published, and they, as tables of `pipelines.example.RECORDS`."""
    example = pipeline.example
    if source is None and isinstance(example, MadeUp):
        count = min(events or example.events, limit or sys.maxsize)
        return count, example.make(count, example.seed if seed is None else seed)
    if source is None and example is None:
        raise Misdeclared(f"Pipeline {pipeline.name!r} has no example events; give --from FILE")
    table = publishable(pipeline, source) if source is not None else example()  # type: ignore[misc]
    table = table.slice(0, limit)
    return len(table), [table]


def _check_is_made_up(pipeline: Pipeline, source: Path | None) -> None:
    if source is not None:
        raise click.UsageError(
            "--events and --seed are for made-up events, and --from gives recorded ones; leave them out"
        )
    if not isinstance(pipeline.example, MadeUp):
        raise click.UsageError(
            f"--events and --seed are for made-up events, and pipeline {pipeline.name!r} makes none up; leave them out, "
            "or publish fewer with --limit"
        )


def _pace(rate: float | None, speedup: float | None) -> Pace:
    if rate is not None and speedup is not None:
        raise click.UsageError("--rate and --speedup are two ways to say how fast; give one")
    if rate is not None:
        return Rate(rate)
    return FlatOut() if speedup is None else Speedup(speedup)

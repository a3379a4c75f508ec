"""``headrace publish PIPELINE``: recorded events to its source topic."""

from pathlib import Path

import click
import pyarrow as pa

from features.errors import Misdeclared
from pipelines import catalog
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
@settings_options(*CLIENT)
def command(  # noqa: PLR0913 - one parameter an option
    pipeline: Pipeline,
    settings: Settings,
    *,
    source: Path | None,
    rate: float | None,
    speedup: float | None,
    limit: int | None,
) -> None:
    """Write recorded events to the source topic of PIPELINE, in order, keyed by its partition key."""
    pace, records = _pace(rate, speedup), events_of(pipeline, source)
    records = records if limit is None else records.slice(0, limit)
    if Topics(settings.clients()).state(pipeline.source.topic) is None:
        raise Misdeclared(
            f"Topic {pipeline.source.topic!r} is not there; create it with: headrace topics {catalog.reference(pipeline)} --create"
        )
    publisher = Publisher(settings.clients(), pipeline.source.topic)
    with progress_bar(f"publish to {pipeline.source.topic}", len(records)) as progress:
        publisher.publish(records, pace, progress)
    click.echo(f"{len(records)} events published to {pipeline.source.topic}")


def events_of(pipeline: Pipeline, source: Path | None) -> pa.Table:
    """The events to publish, as the columns of `workers.publisher.RECORDS`."""
    if source is not None:
        return publishable(pipeline, source)
    if pipeline.example is None:
        raise Misdeclared(f"Pipeline {pipeline.name!r} has no example events; give --from FILE")
    return pipeline.example()


def _pace(rate: float | None, speedup: float | None) -> Pace:
    if rate is not None and speedup is not None:
        raise click.UsageError("--rate and --speedup are two ways to say how fast; give one")
    if rate is not None:
        return Rate(rate)
    return FlatOut() if speedup is None else Speedup(speedup)

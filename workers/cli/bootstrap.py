"""``headrace bootstrap PIPELINE``: recorded events and the topic to checkpoints."""

from pathlib import Path

import click

from pipelines.pipeline import Pipeline
from workers.bootstrap import bootstrap
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.events import recorded
from workers.settings import Settings


@click.command("bootstrap")
@pipeline_argument
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Parquet file or folder of the topic's records, with partition and offset; by default the topic alone.",
)
@settings_options(*CLIENT, "checkpoints", "group")
def command(pipeline: Pipeline, settings: Settings, *, source: Path | None) -> None:
    """Fold recorded events of PIPELINE, and then its source topic, into checkpoints that workers go on from.

    Each partition is folded up to the offset where the consumer group goes on.
    """
    archive = None if source is None else recorded(pipeline, source)
    with progress_bar(f"bootstrap {pipeline.name}", None) as progress:
        written = bootstrap(
            pipeline, settings, settings.group or f"headrace.{pipeline.name}", archive, progress
        )
    for each in written:
        keys = sum(file.keys for file in each.files)
        click.echo(
            f"{each.lineage.topic}[{each.lineage.partition}]: offsets {each.origin} to {each.next_offset}, {keys} keys"
        )

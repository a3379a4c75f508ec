"""``headrace replay PIPELINE``: recorded events to training rows."""

from collections import Counter
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import Misdeclared
from features.replay import Replay
from pipelines.pipeline import Pipeline
from pipelines.replay import replay, rows_of
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.events import recorded
from workers.log import LogReader
from workers.settings import Settings


@click.command("replay")
@pipeline_argument
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Parquet file or folder, raw or typed, JSON lines or an array; by default the source topic.",
)
@click.option("--example", is_flag=True, help="Replay the pipeline's example events.")
@click.option("--to", "target", type=click.Path(path_type=Path), required=True, help="Parquet file to write.")
@settings_options(*CLIENT)
def command(
    pipeline: Pipeline, settings: Settings, *, source: Path | None, example: bool, target: Path
) -> None:
    """Compute the rows of PIPELINE's scored events from recorded ones, with labels, for training."""
    if not target.absolute().parent.is_dir():
        raise Misdeclared(f"--to {target}: there is no folder {str(target.parent)!r}; make it first")
    malformed: Counter[str] = Counter()
    if example and pipeline.example is not None:
        rows = _of_table(pipeline, pipeline.example(), malformed)
    elif example:
        raise Misdeclared(f"Pipeline {pipeline.name!r} has no example events; give --from FILE")
    elif source is not None:
        rows = _of_table(pipeline, recorded(pipeline, source), malformed)
    else:
        rows = _of_topic(pipeline, settings, malformed)
    pq.write_table(rows, target)
    click.echo(f"{len(rows)} rows written to {target}")
    if malformed:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in malformed.most_common())
        click.echo(f"{malformed.total()} records could not be used ({reasons})", err=True)


def _of_table(pipeline: Pipeline, table: pa.Table, malformed: Counter[str]) -> pa.Table:
    with progress_bar(f"replay {pipeline.name}", len(table)) as progress:
        return replay(pipeline, table, progress, malformed)


def _of_topic(pipeline: Pipeline, settings: Settings, malformed: Counter[str]) -> pa.Table:
    reader = LogReader(settings.clients(), pipeline.source.topic)
    marks = reader.watermarks()
    replayer = Replay(pipeline.engine)
    with progress_bar(
        f"replay {pipeline.source.topic}", sum(high - low for low, high in marks.values())
    ) as progress:
        slices = (replayer.records(number, records) for number, records in reader.read(reader.everything()))
        return rows_of(pipeline, slices, progress, malformed)

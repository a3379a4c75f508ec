"""``headrace replay PIPELINE``: recorded events to training rows."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa

from features.decode import RecordDecoder
from features.errors import Misdeclared
from features.recorded import Recorded, RecordedTable
from features.replay import decoded_records
from pipelines.pipeline import Pipeline
from pipelines.replay import replay, replayed, row_schema, rows_of, write_rows
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
@click.option(
    "--workers",
    "processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes that the keys are split over.",
)
@settings_options(*CLIENT)
def command(  # noqa: PLR0913 - one parameter an option
    pipeline: Pipeline,
    settings: Settings,
    *,
    source: Path | None,
    example: bool,
    target: Path,
    processes: int,
) -> None:
    """Compute the rows of PIPELINE's scored events from recorded ones, with labels, for training.

    A Parquet input is read and written as a stream: it may be larger than memory.
    """
    if not target.absolute().parent.is_dir():
        raise Misdeclared(f"--to {target}: there is no folder {str(target.parent)!r}; make it first")
    malformed: Counter[str] = Counter()
    if example and pipeline.example is None:
        raise Misdeclared(f"Pipeline {pipeline.name!r} has no example events; give --from FILE")
    if example and pipeline.example is not None:
        rows = _of_events(pipeline, RecordedTable(pipeline.example()), malformed, processes)
    elif source is not None:
        rows = _of_events(pipeline, recorded(pipeline, source), malformed, processes)
    else:
        rows = _of_topic(pipeline, settings, malformed, processes)
    count = write_rows(rows, row_schema(pipeline), target)
    click.echo(f"{count} rows written to {target}")
    if malformed:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in malformed.most_common())
        click.echo(f"{malformed.total()} records could not be used ({reasons})", err=True)


def _of_events(
    pipeline: Pipeline, events: Recorded, malformed: Counter[str], processes: int
) -> Iterator[pa.RecordBatch]:
    with progress_bar(f"replay {pipeline.name}", events.rows) as progress:
        if isinstance(events, RecordedTable):
            rows = replay(pipeline, events.table, progress, malformed, processes=processes)
            yield from rows.to_batches()
        else:
            yield from replayed(pipeline, events, progress, malformed, processes=processes)


def _of_topic(
    pipeline: Pipeline, settings: Settings, malformed: Counter[str], processes: int
) -> Iterator[pa.RecordBatch]:
    reader = LogReader(settings.clients(), pipeline.source.topic)
    total = sum(high - low for low, high in reader.watermarks().values())
    decoder = RecordDecoder(pipeline.source.schema)
    with progress_bar(f"replay {pipeline.source.topic}", total) as progress:
        batches = (decoded_records(decoder, *each) for each in reader.read(reader.everything()))
        yield from rows_of(pipeline, batches, progress, malformed, processes=processes).to_batches()

"""``headrace new NAME``: a pipeline written from a sample of its events."""

from pathlib import Path

import click
import msgspec

from features.errors import Misdeclared
from workers.cli.options import CLIENT, settings_options
from workers.log import LogReader
from workers.sampling import MOST_ROWS, Sample, read_sample, write_pipeline
from workers.settings import Settings


@click.command("new")
@click.argument("name")
@click.option(
    "--sample",
    required=True,
    metavar="FILE|TOPIC",
    help="JSON lines, a JSON array or Parquet; or a topic to read some records of.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="File to write; by default NAME.py in this folder.",
)
@settings_options(*CLIENT)
def command(name: str, settings: Settings, *, sample: str, target: Path | None) -> None:
    """Infer a schema from a sample and write the pipeline NAME, for you to change."""
    if not name.isidentifier():
        raise Misdeclared(f"{name!r} can't name a pipeline file; use letters, digits and '_'")
    target = target or Path(f"{name}.py")
    if target.exists():
        raise Misdeclared(f"{target} is there already; give another name, or --to FILE")
    if Path(sample).exists() or "/" in sample or Path(sample).suffix:
        topic, found = name, read_sample(Path(sample))
    else:
        topic, found = sample, _of_topic(sample, settings)
    target.write_text(write_pipeline(name, topic, found))
    click.echo(f"{target} written from {len(found.rows)} events; next: headrace check {target}")


def _of_topic(topic: str, settings: Settings) -> Sample:
    """The newest records of a topic that are JSON objects."""
    reader = LogReader(settings.clients(), topic)
    marks = reader.watermarks()
    share = -(-MOST_ROWS // len(marks))
    rows, keys = [], []
    for _, records in reader.read(
        {number: (max(low, high - share), high) for number, (low, high) in marks.items()}
    ):
        for key, value in zip(records.keys, records.values, strict=True):
            try:
                rows.append(msgspec.json.decode(value or b"", type=dict))
                keys.append(key)
            except msgspec.DecodeError:
                continue
    return Sample(rows=rows, keys=keys)

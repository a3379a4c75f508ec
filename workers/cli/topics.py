"""``headrace topics PIPELINE``: what topics it needs, and whether they are there."""

import click
import msgspec

from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.settings import Settings
from workers.topics import Topics, topic_specs


@click.command("topics")
@pipeline_argument
@click.option("--create", is_flag=True, help="Create those that are not there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(*CLIENT)
def command(pipeline: Pipeline, settings: Settings, *, create: bool, as_json: bool) -> None:
    """Show the topics of PIPELINE, or create them."""
    topics = Topics(settings.clients())
    created = topics.create(topic_specs(pipeline, topics.largest(pipeline.source.topic))) if create else []
    there = topics.states()
    rows = [
        {
            "name": spec.name,
            "role": spec.role,
            "partitions": there.get(spec.name, 0),
            "created": spec.name in created,
        }
        for spec in topic_specs(pipeline)
    ]
    if as_json:
        click.echo(msgspec.json.encode(rows).decode())
        return
    for row in rows:
        state = f"{row['partitions']} partitions" if row["partitions"] else "not there"
        click.echo(f"{row['name']:<32} {row['role']:<14} {state}{', created' if row['created'] else ''}")

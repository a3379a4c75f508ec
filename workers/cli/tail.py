"""``headrace tail PIPELINE``: predictions as they come."""

import click
from confluent_kafka import OFFSET_END, TopicPartition

from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.clients import make_consumer
from workers.log import LogReader
from workers.settings import Settings


@click.command("tail")
@pipeline_argument
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest prediction.")
@click.option("--dead-letters", is_flag=True, help="Show dead letters, with their reasons, instead.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many.")
@settings_options(*CLIENT)
def command(
    pipeline: Pipeline, settings: Settings, *, from_beginning: bool, dead_letters: bool, limit: int | None
) -> None:
    """Print PIPELINE's predictions, one JSON object a line, until it is interrupted."""
    topic = pipeline.dead_letters if dead_letters else pipeline.predictions
    marks = LogReader(settings.clients(), topic).watermarks()
    consumer = make_consumer(settings.clients(), {"group.id": "headrace-tail"})
    consumer.assign(
        [
            TopicPartition(topic, number, low if from_beginning else OFFSET_END)
            for number, (low, _) in marks.items()
        ]
    )
    shown = 0
    try:
        while limit is None or shown < limit:
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            shown += 1
            if dead_letters:
                headers = {
                    name: value.decode(errors="replace")
                    for name, value in message.headers() or ()
                    if name.startswith("headrace.")
                }
                click.echo(f"{headers}")
            click.echo((message.value() or b"").decode(errors="replace"))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()

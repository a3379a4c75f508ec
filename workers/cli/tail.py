"""``headrace tail PIPELINE``: predictions as they come."""

import json

import click
from confluent_kafka import OFFSET_END, Message, TopicPartition

from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.clients import make_consumer
from workers.dead_letter_log import is_mark
from workers.log import LogReader
from workers.settings import Settings

_SHOWN = 4096


@click.command("tail")
@pipeline_argument
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest prediction.")
@click.option("--dead-letters", is_flag=True, help="Show dead letters, with their reasons, instead.")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after so many.")
@settings_options(*CLIENT)
def command(
    pipeline: Pipeline, settings: Settings, *, from_beginning: bool, dead_letters: bool, limit: int | None
) -> None:
    """Print PIPELINE's predictions, one JSON object a line, until it is interrupted.

    A dead letter is an object of its headrace.* headers, the record's key, and the first 4,096 characters of its value.
    """
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
            if message is None or message.error() is not None or (dead_letters and is_mark(message)):
                continue
            shown += 1
            click.echo(_letter(message) if dead_letters else _text(message.value()))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def _letter(message: Message) -> str:
    headers = {
        name.removeprefix("headrace."): _text(value)
        for name, value in message.headers() or ()
        if name.startswith("headrace.")
    }
    value = None if message.value() is None else _text(message.value())[:_SHOWN]
    key = None if message.key() is None else _text(message.key())[:_SHOWN]
    return json.dumps({**headers, "key": key, "value": value}, ensure_ascii=False)


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")

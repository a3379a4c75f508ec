"""``headrace broker``: a Kafka broker for development."""

import signal
import threading

import click

from workers.brokers import EmbeddedBroker, KafkaBroker


@click.command("broker")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1; 9092 by default, a free one for a real Kafka.",
)
@click.option(
    "--kafka",
    "real",
    is_flag=True,
    help="Apache Kafka itself (needs Java and Maven) instead of the embedded broker.",
)
def command(*, port: int | None, real: bool) -> None:
    """Run a broker until it is interrupted; all that it holds goes with it."""
    if real and port is not None:
        raise click.UsageError("a real Kafka takes a free port; leave --port out")
    broker = KafkaBroker() if real else EmbeddedBroker(port=port or 9092)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with broker:
        click.echo(f"broker at {broker.bootstrap}; interrupt to end it")
        ended.wait()

"""``headrace worker PIPELINE``: score its events."""

import logging
import socket

import click
import faust

from features.errors import HeadraceError, Misdeclared
from pipelines.pipeline import Pipeline
from workers.app import worker_app
from workers.cli.options import pipeline_argument, settings_options
from workers.logs import log_handler
from workers.settings import Settings

_FLAGS = tuple(Settings.model_fields)


@click.command("worker")
@pipeline_argument
@settings_options(*_FLAGS)
def command(pipeline: Pipeline, settings: Settings) -> None:
    """Score PIPELINE's events until SIGTERM: then finish what has begun, commit and leave."""
    _check_port(settings)
    app = worker_app(pipeline, settings)
    app.headrace.check()
    logging.getLogger().addHandler(log_handler(settings))
    logging.getLogger().setLevel(settings.log_level.upper())
    worker = faust.Worker(app, loglevel=settings.log_level.upper(), override_logging=False, quiet=True)
    worker.spinner = None  # it writes to the terminal even where there is none
    try:
        worker.execute_from_commandline()
    finally:
        if isinstance(app.crash_reason, HeadraceError):
            click.echo(f"headrace: {app.crash_reason}", err=True)


def _check_port(settings: Settings) -> None:
    """Raises Misdeclared when somebody else listens where health and metrics shall be."""
    try:
        with socket.create_server((settings.admin_host, settings.admin_port)):
            return
    except OSError as error:
        raise Misdeclared(
            f"admin_port {settings.admin_port} of {settings.admin_host} can't be listened on ({error.strerror}); "
            "give each worker of a machine another --admin-port, or 0 for any free one"
        ) from error

"""``headrace worker PIPELINE``: score its events."""

import logging

import click
import faust

from features.errors import HeadraceError
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
    app = worker_app(pipeline, settings)
    app.headrace.check()
    logging.getLogger().addHandler(log_handler(settings))
    logging.getLogger().setLevel(settings.log_level.upper())
    worker = faust.Worker(app, loglevel=settings.log_level.upper(), override_logging=False, quiet=True)
    try:
        worker.execute_from_commandline()
    finally:
        if isinstance(app.crash_reason, HeadraceError):
            click.echo(f"headrace: {app.crash_reason}", err=True)

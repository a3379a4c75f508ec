"""``headrace check PIPELINE``: the deploy-time check."""

import click
import msgspec

from pipelines.pipeline import Pipeline
from workers.cli.options import pipeline_argument, settings_options
from workers.preflight import Outcome, preflight
from workers.settings import Settings


@click.command("check")
@pipeline_argument
@click.option("--strict", is_flag=True, help="Fail as well for what is not there yet, as the worker does.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options("bootstrap", "kafka", "registry", "model")
def command(pipeline: Pipeline, settings: Settings, *, strict: bool, as_json: bool) -> None:
    """Prove that PIPELINE's schema, features, model inputs and topics agree.

    What does not exist yet (the model, the topics, a broker) is said, and fails only with --strict.
    """
    lines = list(preflight(pipeline, settings))
    if as_json:
        click.echo(msgspec.json.encode(lines).decode())
    else:
        for line in lines:
            click.echo(f"{line.what:<10} {line.outcome.value:<14} {line.detail}")
    bad = {Outcome.FAILED, Outcome.ABSENT} if strict else {Outcome.FAILED}
    if any(line.outcome in bad for line in lines):
        raise click.exceptions.Exit(1)

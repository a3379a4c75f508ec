"""The command line: ``headrace``.

Exit codes: 0 ok, 1 failed (with the reason on stderr), 2 misuse.
"""

import gc
import importlib
import sys

import click

from features.errors import HeadraceError
from workers.sigterm import leave_quietly_on_sigterm

COMMANDS = {
    "bootstrap": "Fold recorded events and the topic into checkpoints.",
    "broker": "Start a Kafka broker for development, in memory or real.",
    "check": "Prove that schema, features, model and topics agree.",
    "demo": "Run everything on this machine on real flights, with a report.",
    "dlq": "List, show and replay dead letters.",
    "models": "List, show, verify and register models.",
    "new": "Write a pipeline from a sample of its events.",
    "parity": "Compare published predictions with rows recomputed from the log.",
    "publish": "Write recorded events to a pipeline's source topic.",
    "replay": "Turn recorded events into training rows.",
    "tail": "Show predictions as they come.",
    "topics": "Show or create a pipeline's topics.",
    "train": "Train a pipeline's model and register it.",
    "warm": "Compile the engine ahead of its first use.",
    "worker": "Score a pipeline's events.",
}
"""Every command and what it does; each stands in the file of its name beside this one."""


class _Commands(click.Group):
    """Imports a command when it is asked for: ``--help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"workers.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="headrace")
def headrace() -> None:
    """Kafka in, exact streaming features, micro-batched model inference, predictions out."""


def main() -> None:
    """The entry point."""
    try:
        if sys.argv[1:2] == ["worker"]:
            leave_quietly_on_sigterm()
            _import_worker()
        code = headrace.main(standalone_mode=False)  # the code of a click.exceptions.Exit, or None
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        sys.exit(1)
    except click.ClickException as misuse:
        misuse.show()
        sys.exit(misuse.exit_code)
    except HeadraceError as error:
        click.echo(f"headrace: {error}", err=True)
        sys.exit(1)


def _import_worker() -> None:
    """Ahead of its use. What is imported stays: looking for garbage in it is a tenth of a worker's start."""
    gc.disable()
    importlib.import_module("workers.cli.worker")
    gc.freeze()
    gc.enable()

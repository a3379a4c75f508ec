"""``python -m tests.chaos``: campaigns in both delivery modes and with both group protocols."""

import itertools
import sys

import click

from tests.chaos.campaign import Form, run
from tests.chaos.planted import MISTAKES

DELIVERIES, PROTOCOLS = ("at_least_once", "exactly_once"), ("classic", "consumer")

_MOST_PLANTED = 20
"""Rounds within which a mistake has to be found."""


@click.command()
@click.option("--rounds", default=100, show_default=True, help="Of each campaign.")
@click.option("--seed", default=1, show_default=True)
@click.option("--delivery", type=click.Choice(DELIVERIES), multiple=True, default=DELIVERIES)
@click.option("--protocol", type=click.Choice(PROTOCOLS), multiple=True, default=PROTOCOLS)
@click.option(
    "--planted", is_flag=True, help="Instead, see that workers with a mistake in them are found out."
)
def main(
    *, rounds: int, seed: int, delivery: tuple[str, ...], protocol: tuple[str, ...], planted: bool
) -> None:
    """Kill, freeze and restart workers and broker under load, and count what is lost, repeated or wrong."""
    if planted:
        _find_out(min(rounds, _MOST_PLANTED), seed)
    outcomes = []
    for mode, group in itertools.product(delivery, protocol):
        form = Form(rounds=rounds, seed=seed, delivery=mode, protocol=group)
        outcomes.append(run(form, lambda said: click.echo(said, err=True)))
        click.echo(str(outcomes[-1]))
    broken = [outcome for outcome in outcomes if outcome.broken]
    for outcome in broken:
        click.echo(f"broken: {', '.join(outcome.broken)} in {outcome.form}")
    sys.exit(1 if broken else 0)


def _find_out(rounds: int, seed: int) -> None:
    missed = []
    for mistake, (_, delivery) in MISTAKES.items():
        program = (sys.executable, "-m", "tests.chaos.planted", mistake)
        form = Form(rounds=rounds, seed=seed, delivery=delivery, program=program)
        outcome = run(form, lambda said: click.echo(said, err=True))
        click.echo(f"{mistake}: {f'found, {outcome.broken}' if outcome.broken else 'NOT FOUND'}; {outcome}")
        if not outcome.broken:
            missed.append(mistake)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

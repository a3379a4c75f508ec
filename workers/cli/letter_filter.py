"""Options that say which dead letters are meant."""

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from features.schema import did_you_mean
from workers.dead_letter_log import LetterFilter, Survey
from workers.dead_letters import REASONS, STAGES
from workers.settings import read_duration


class _Moment(click.ParamType):
    """A moment in ISO 8601, in UTC unless it says otherwise, or how long ago; ms since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """From what was typed."""
        if value[-1:].isalpha() and isinstance(ago := read_duration(value), timedelta):
            moment = datetime.now(UTC) - ago
        else:
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                self.fail(
                    f"{value!r} is no time; write 2024-03-09T16:00:00Z, 2024-03-09, or how long ago: 30m, 2h, 1d",
                    param,
                    ctx,
                )
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def letter_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which letters are meant; the command gets ``chosen``."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        reason, stage, key, since, until = (
            kwargs.pop(name) for name in ("reason", "stage", "key", "since", "until")
        )
        if since is not None and until is not None and since >= until:
            raise click.UsageError("--since is not before --until: no dead letter can be meant")
        chosen = LetterFilter(
            reasons=frozenset(reason),
            stages=frozenset(stage),
            keys=frozenset(each.encode() for each in key),
            since=since,
            until=until,
        )
        return function(*args, chosen=chosen, **kwargs)

    decorated: Callable[..., Any] = run
    for option in (
        click.option("--until", type=_Moment(), help="Only letters from before this time, or so long ago."),
        click.option(
            "--since",
            type=_Moment(),
            help="Only letters from this time on, or so long ago: ISO 8601, or 30m, 2h, 1d.",
        ),
        click.option("--key", multiple=True, help="Only records with this Kafka key; may be repeated."),
        click.option(
            "--stage", multiple=True, type=click.Choice(STAGES), help="Only this stage; may be repeated."
        ),
        click.option("--reason", multiple=True, help="Only this reason; may be repeated."),
    ):
        decorated = option(decorated)
    return decorated


def check_reasons(chosen: LetterFilter, survey: Survey) -> None:
    """Raise a misuse of ``--reason`` if there is no such reason, known or on the topic."""
    known = sorted({*REASONS, *survey.reasons})
    for reason in sorted(chosen.reasons - set(known)):
        raise click.BadParameter(
            f"there is no reason {reason!r}; {did_you_mean(reason, known)}", param_hint="--reason"
        )

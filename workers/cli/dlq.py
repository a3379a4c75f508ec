"""``headrace dlq PIPELINE``: dead letters, and how they come back."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator

import click
import msgspec

from features.errors import Misdeclared
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.cli.letter_filter import check_reasons, letter_filter
from workers.cli.letter_views import LetterCount, as_dict, as_list, as_page, readable
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.dead_letter_log import DeadLetter, DeadLetterLog, LetterFilter, Position, Survey
from workers.dead_letter_replay import DeadLetterReplay, Replayed
from workers.dead_letters import REASONS
from workers.settings import Settings

_PLANNED_SHOWN = 20


@click.group("dlq")
@pipeline_argument
@click.pass_context
def command(ctx: click.Context, pipeline: Pipeline) -> None:
    """List, show and replay the dead letters of PIPELINE.

    A letter is named by PARTITION:OFFSET of the dead-letter topic.
    """
    ctx.obj = pipeline


@command.command("list")
@click.pass_obj
@letter_filter
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many letters are listed, the newest.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(*CLIENT)
def list_letters(
    pipeline: Pipeline, settings: Settings, *, chosen: LetterFilter, limit: int, as_json: bool
) -> None:
    """Count dead letters by stage and reason, and list the newest."""
    log = DeadLetterLog(settings.clients(), pipeline)
    with progress_bar(f"read {pipeline.dead_letters}", None) as progress:
        survey = log.survey(progress)
        check_reasons(chosen, survey)
        counts: dict[tuple[str, str], LetterCount] = {}
        newest = heapq.nlargest(
            limit,
            _counted(log.letters(survey, chosen, progress), survey, counts),
            key=lambda each: (each.time, each.position),
        )
    if as_json:
        found = {
            "letters": sum(each.letters for each in counts.values()),
            "counts": [
                {"stage": stage, "reason": reason, **msgspec.to_builtins(count)}
                for (stage, reason), count in sorted(counts.items())
            ],
            "newest": [as_dict(letter, survey) for letter in newest],
        }
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo("\n".join(as_list(pipeline, counts, newest, survey)))


def _counted(
    letters: Iterator[DeadLetter], survey: Survey, counts: dict[tuple[str, str], LetterCount]
) -> Iterator[DeadLetter]:
    for letter in letters:
        count = counts.setdefault((letter.stage, letter.reason), LetterCount())
        count.add(letter, is_replayed=bool(survey.targets(letter)))
        yield letter


@command.command("show")
@click.pass_obj
@click.argument("position", metavar="POSITION")
@click.option("--raw", is_flag=True, help="Write the bytes of the value to stdout, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(*CLIENT)
def show(pipeline: Pipeline, position: str, settings: Settings, *, raw: bool, as_json: bool) -> None:
    """Show all of one dead letter.

    POSITION is PARTITION:OFFSET of the dead-letter topic, or TOPIC:PARTITION:OFFSET, of that topic or of the source.
    """
    if raw and as_json:
        raise click.UsageError("--raw and --json can't both be; leave one out")
    log = DeadLetterLog(settings.clients(), pipeline)
    with progress_bar(f"read {pipeline.dead_letters}", None) as progress:
        letter = _found(log, pipeline, position, progress)
        survey = Survey(ranges={}) if raw else log.survey(progress)
    if raw:
        click.get_binary_stream("stdout").write(letter.value or b"")
    elif as_json:
        click.echo(msgspec.json.encode({**as_dict(letter, survey), "value": readable(letter.value)}).decode())
    else:
        click.echo("\n".join(as_page(letter, survey)))


def _found(
    log: DeadLetterLog, pipeline: Pipeline, text: str, progress: Callable[[int], object]
) -> DeadLetter:
    """The letter at a position, or the newest one of a source position."""
    position = Position.parse(text if text.count(":") > 1 else f"{pipeline.dead_letters}:{text}")
    if position is None:
        raise click.BadParameter(
            f"{text!r} is neither PARTITION:OFFSET nor TOPIC:PARTITION:OFFSET", param_hint="POSITION"
        )
    if position.topic == pipeline.dead_letters:
        return log.at(position.partition, position.offset)
    letters = log.letters(log.survey(), LetterFilter(), progress)
    found = [letter for letter in letters if letter.source == str(position)]
    if not found:
        raise Misdeclared(
            f"No dead letter in {pipeline.dead_letters} is of the record {position}; headrace dlq {catalog.reference(pipeline)} list shows sources"
        )
    return found[-1]


@command.command("replay")
@click.pass_obj
@letter_filter
@click.option("--limit", type=click.IntRange(min=1), help="Replay at most so many, the oldest first.")
@click.option("--to", "target", metavar="TOPIC", help="Publish them to this topic; by default to the source.")
@click.option("--dry-run", is_flag=True, help="Say what would be published, and publish nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(*CLIENT)
def replay(  # noqa: PLR0913 - one parameter an option
    pipeline: Pipeline,
    settings: Settings,
    *,
    chosen: LetterFilter,
    limit: int | None,
    target: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Publish the records of dead letters again, each once for a topic.

    Key, value and headers are the record's; headrace.replayed names the letter, headrace.attempts how often it has
    failed. What was published to the topic before is recognised and left out, whatever became of that replay.
    """
    target = target or pipeline.source.topic
    again = DeadLetterReplay(settings.clients(), pipeline, target)
    again.check()
    survey = (
        DeadLetterLog(settings.clients(), pipeline).survey()
        if chosen.reasons - set(REASONS)
        else Survey(ranges={})
    )
    check_reasons(chosen, survey)
    letters: list[str] = []
    with progress_bar(f"replay to {target}", None) as progress:
        if dry_run:
            outcome, kinds = Replayed(), Counter[tuple[str, str]]()
            for letter in again.plan(chosen, limit, outcome, progress):
                kinds[letter.stage, letter.reason] += 1
                letters += (
                    [f"{letter.position.partition}:{letter.position.offset}"]
                    if len(letters) < _PLANNED_SHOWN
                    else []
                )
            outcome.published = kinds.total()
        else:
            outcome = again.run(chosen, limit, progress)
    if as_json:
        report: dict[str, object] = {"topic": target, "dry_run": dry_run, **msgspec.to_builtins(outcome)}
        report["left"] = [{"letter": str(position), "why": why} for position, why in outcome.left]
        click.echo(msgspec.json.encode(report).decode())
    else:
        what = "dead letters would be replayed to" if dry_run else "dead letters replayed to"
        click.echo(f"{outcome.published} {what} {target}, {outcome.recognised} were before")
    if dry_run and letters and not as_json:
        for (stage, reason), count in sorted(kinds.items()):
            click.echo(f"{stage} {reason}: {count}")
        click.echo(f"letters {', '.join(letters)}{' ...' if outcome.published > len(letters) else ''}")
    for position, why in outcome.left[:_PLANNED_SHOWN]:
        click.echo(f"headrace: letter {position} was left: {why}", err=True)
    if outcome.left:
        click.echo(f"headrace: {len(outcome.left)} letters could not be published", err=True)
        raise click.exceptions.Exit(1)

"""``headrace parity PIPELINE``: are online rows and recomputed ones the same bits."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
import numpy as np

from features.mismatch import Evidence, Mismatch, Value
from features.parity import ParityReport
from features.recorded import RecordedFiles
from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.cli.table import table
from workers.parity import parity
from workers.settings import Settings

_SHOWN, _LISTED = 20, 1000
"""Positions that are listed for people and in JSON."""
_NAMED = 4
"""Columns that are named in a line."""


@click.command("parity")
@pipeline_argument
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    help="Recompute from this raw archive (Parquet) instead of the source topic.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(*CLIENT)
def command(pipeline: Pipeline, settings: Settings, *, archive: Path | None, as_json: bool) -> None:
    """Recompute the rows behind PIPELINE's predictions from topics alone and compare their bits.

    Fails if a row differs, is missing or was never to be scored. A row whose record is a dead letter is not missing.
    Of the first row that differs it shows which columns do, both values where the worker logs them (--log-features),
    and the events behind.
    """
    events = None if archive is None else RecordedFiles.at(archive)
    with progress_bar(f"parity of {pipeline.name}", None) as progress:
        report = parity(pipeline, settings, events, progress)
    click.echo(
        msgspec.json.encode(as_dict(report)).decode() if as_json else _text(report, pipeline.source.topic)
    )
    if not report.holds:
        raise click.exceptions.Exit(1)


def as_dict(report: ParityReport) -> dict[str, object]:
    """The report as JSON has it."""
    return {
        "rows": report.rows,
        "mismatches": len(report.mismatched),
        "missing": len(report.missing),
        "extra": len(report.extra),
        "refused": len(report.refused),
        "repeated": report.repeated,
        "contradicting": len(report.contradicting),
        "mismatched_at": report.mismatched[:_LISTED],
        "missing_at": report.missing[:_LISTED],
        "extra_at": report.extra[:_LISTED],
        "contradicting_at": report.contradicting[:_LISTED],
        "features": report.features,
        "first": report.first,
    }


def _text(report: ParityReport, topic: str) -> str:
    compared = f"{report.rows} rows of {len(report.features)} features compared"
    lines = [f"{compared}, {len(report.mismatched)} mismatches, {report.repeated} repeated"]
    if report.refused:
        lines[0] += f", {len(report.refused)} dead letters instead"
    for what, where in (
        ("differ", report.mismatched),
        ("missing", report.missing),
        ("extra", report.extra),
        ("contradict", report.contradicting),
    ):
        if where:
            shown = ", ".join(f"{partition}:{offset}" for partition, offset in where[:_SHOWN])
            lines.append(f"{len(where)} {what}: {shown}{' ...' if len(where) > _SHOWN else ''}")
    differing = {name: each for name, each in report.features.items() if each.mismatches}
    if differing:
        lines.append("")
        lines += table(
            [
                ("feature", "rows", "mismatches"),
                *((name, str(each.rows), str(each.mismatches)) for name, each in differing.items()),
            ]
        )
    return "\n".join([*lines, *(_first(report.first, topic) if report.first else [])])


def _first(first: Mismatch, topic: str) -> Iterator[str]:
    """The first row that differs, for people."""
    yield ""
    yield f"first: {topic}[{first.partition}]@{first.offset}, key {first.key!r}, event time {_moment(first.event_time)}"
    yield f"digest {first.online_digest} online, {first.recomputed_digest} recomputed"
    if not first.is_logged:
        yield "The online values are not known: a worker with --log-features 1 publishes them. Recomputed are:"
    elif not first.differences:
        yield "Every logged value is the recomputed one: only the digest differs."
    yield from table(list(_columns(first))) if first.differences else ()
    for evidence in first.evidence:
        yield from _events(evidence)


def _columns(first: Mismatch) -> Iterator[Sequence[str]]:
    yield ("column", "online", "recomputed") if first.is_logged else ("column", "recomputed")
    for each in first.differences:
        recomputed = _shown(each.recomputed, each.online)
        yield (
            (each.column, _shown(each.online, each.recomputed), recomputed)
            if first.is_logged
            else (each.column, recomputed)
        )


def _events(evidence: Evidence) -> Iterator[str]:
    entity = ", ".join(f"{name} {value!r}" for name, value in evidence.entity.items()) or "the event alone"
    yield ""
    yield f"behind {_some(evidence.columns)}, read as of {_moment(evidence.now)}: {entity}"
    if evidence.entity:
        counting = _some([f"{count} for {name}" for name, count in evidence.counting.items()])
        yield f"{evidence.total} events since it began; taking part: {counting}; the last {len(evidence.events)}:"
    fields = list(evidence.events[0].fields) if evidence.events else []
    yield from table(
        [
            ("offset", "event time", *fields, "takes part in"),
            *(
                (
                    str(each.offset),
                    _moment(each.event_time),
                    *(repr(each.fields[name]) for name in fields),
                    "late" if each.is_late else _some(each.counts_for),
                )
                for each in evidence.events
            ),
        ]
    )


def _some(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return ", ".join(names) or "-"


def _shown(value: Value | None, other: Value | None) -> str:
    """A number; with its bits if it is written as the other one is."""
    if value is None:
        return "not there"
    is_alike = other is not None and str(value.number) == str(other.number)
    return f"{value.number} ({value.bits})" if is_alike else str(value.number)


def _moment(milliseconds: int) -> str:
    return f"{milliseconds} ({np.datetime_as_string(np.datetime64(milliseconds, 'ms'), timezone='UTC')})"

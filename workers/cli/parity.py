"""``headrace parity PIPELINE``: are online rows and recomputed ones the same bits."""

from pathlib import Path

import click
import msgspec

from features.parity import ParityReport
from features.recorded import RecordedFiles
from pipelines.pipeline import Pipeline
from workers.cli.options import CLIENT, pipeline_argument, settings_options
from workers.cli.progress import progress_bar
from workers.parity import parity
from workers.settings import Settings

_SHOWN, _LISTED = 20, 1000
"""Positions that are listed for people and in JSON."""


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
    """
    events = None if archive is None else RecordedFiles.at(archive)
    with progress_bar(f"parity of {pipeline.name}", None) as progress:
        report = parity(pipeline, settings, events, progress)
    click.echo(msgspec.json.encode(as_dict(report)).decode() if as_json else _text(report))
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
    }


def _text(report: ParityReport) -> str:
    lines = [f"{report.rows} rows compared, {len(report.mismatched)} mismatches, {report.repeated} repeated"]
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
    return "\n".join(lines)

"""``headrace models``: the registry."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
import numpy as np
import pyarrow.parquet as pq

from features.errors import Misdeclared
from models.foreign import Wiring, foreign_manifest
from models.manifest import Manifest, Stamp
from models.registry import ModelRef, Registry
from models.vocabulary import Vocabulary
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.cli.options import settings_options
from workers.settings import Settings


@click.group("models")
def command() -> None:
    """List, show, verify and register models."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options("registry")
def list_models(settings: Settings, *, as_json: bool) -> None:
    """List every version in the registry."""
    registry = Registry.at(settings.registry)
    manifests = [
        registry.manifest(name, version) for name in registry.names() for version in registry.versions(name)
    ]
    if as_json:
        rows = [{"name": m.name, "version": m.version, "sha256": m.sha256, "auc": _auc(m)} for m in manifests]
        click.echo(msgspec.json.encode(rows).decode())
        return
    for manifest in manifests:
        auc = _auc(manifest)
        quality = "" if auc is None else f"  AUC {auc:.4f}"
        click.echo(
            f"{manifest.name}:{manifest.version}  {manifest.created:%Y-%m-%d %H:%M}  {manifest.sha256[:12]}{quality}"
        )


@command.command("show")
@click.argument("reference", metavar="NAME[:VERSION]")
@settings_options("registry")
def show(reference: str, settings: Settings) -> None:
    """Print a version's manifest; the newest by default."""
    ref = ModelRef.parse(reference)
    click.echo(Registry.at(settings.registry).manifest(ref.name, ref.version).write().decode().rstrip())


@command.command("verify")
@click.argument("reference", metavar="NAME[:VERSION]")
@settings_options("registry")
def verify(reference: str, settings: Settings) -> None:
    """Check a version's file against its digest; the newest by default."""
    registry, ref = Registry.at(settings.registry), ModelRef.parse(reference)
    data = registry.load(ref.name, ref.version)
    click.echo(f"{registry.resolve(ref)}: {len(data)} bytes are those that were registered")


@command.command("register")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--pipeline", "reference", required=True, help="The pipeline whose columns feed it.")
@click.option("--name", help="Name of the model; by default the one that the pipeline declares.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=COLUMN,...",
    help="Columns that feed an input, where its shape does not tell.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="NAME=PUBLISHED",
    help="An output, or NAME[i] for one column of it, and what it is published as.",
)
@click.option(
    "--vocabulary-from",
    type=click.Path(path_type=Path),
    help="Replayed rows (Parquet) that the category codes were learned from, most frequent first.",
)
@settings_options("registry")
def register(  # noqa: PLR0913 - one parameter an option
    file: Path,
    settings: Settings,
    *,
    reference: str,
    name: str | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    vocabulary_from: Path | None,
) -> None:
    """Register any ONNX FILE as a model of a pipeline; it is run once, to store rows with their answers."""
    if not file.exists():
        raise Misdeclared(f"There is no model file {str(file)!r}")
    pipeline = catalog.load(reference)
    wiring = Wiring(
        inputs={key: value.split(",") for key, value in _pairs("--input", inputs)},
        outputs=dict(_pairs("--output", outputs)),
        vocabularies={} if vocabulary_from is None else _vocabularies(pipeline, vocabulary_from),
    )
    model = file.read_bytes()
    stamp = Stamp(name=name or pipeline.model, created=datetime.now(UTC))
    ref = Registry.at(settings.registry).register(
        model, foreign_manifest(model, pipeline.engine, wiring, stamp)
    )
    click.echo(f"{file} is {ref}")


def _auc(manifest: Manifest) -> float | None:
    return None if manifest.training is None else manifest.training.metrics.auc


def _pairs(flag: str, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not rest:
            raise click.UsageError(f"{flag} {value!r} is not NAME=...")
        pairs.append((name, rest))
    return pairs


def _vocabularies(pipeline: Pipeline, path: Path) -> dict[str, Vocabulary]:
    table = pq.read_table(path)
    missing = [name for name in pipeline.engine.category_columns if name not in table.schema.names]
    if missing:
        raise Misdeclared(
            f"{path} has no column {missing[0]!r}; give rows of headrace replay for this pipeline"
        )
    return {
        name: Vocabulary.learn(np.asarray(table[name].to_numpy(), np.int64))
        for name in pipeline.engine.category_columns
    }

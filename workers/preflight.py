"""The deploy-time check: schema, features, model and topics agree, shown line by line."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from features.errors import HeadraceError, Misdeclared, Unavailable
from models.loading import load_model
from models.registry import ModelRef, Registry
from pipelines import catalog
from pipelines.pipeline import Pipeline
from workers.settings import Settings
from workers.sinks import check_sinks
from workers.topics import Topics, topic_specs


class Outcome(StrEnum):
    """How a line came out."""

    OK = "ok"
    FAILED = "failed"
    ABSENT = "not there yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was checked."""

    what: str
    outcome: Outcome
    detail: str


def preflight(pipeline: Pipeline, settings: Settings) -> Iterator[Line]:
    """Check a pipeline, each thing as far as it is there; what is not there yet is said."""
    engine = pipeline.engine
    yield Line(
        what="features",
        outcome=Outcome.OK,
        detail=f"{len(engine.float_columns)} float and {len(engine.category_columns)} category columns; "
        f"column fingerprint {engine.column_fingerprint}, state fingerprint {engine.state_fingerprint}",
    )
    yield _line("catalog", lambda: _check_catalog(pipeline))
    yield _model(pipeline, settings)
    yield from _topics(pipeline, settings)


def _line(what: str, check: Callable[[], str]) -> Line:
    try:
        return Line(what=what, outcome=Outcome.OK, detail=check())
    except HeadraceError as error:
        return Line(what=what, outcome=Outcome.FAILED, detail=str(error))


def _check_catalog(pipeline: Pipeline) -> str:
    mine = {pipeline.predictions, pipeline.dead_letters}
    for other in catalog.catalog():
        if other.name == pipeline.name:
            continue
        if taken := mine & {other.predictions, other.dead_letters, other.source.topic}:
            raise Misdeclared(
                f"Pipeline {pipeline.name!r} writes to {min(taken)!r}, a topic of pipeline {other.name!r}; "
                "give it a topic of its own with predictions= or dead_letters="
            )
    return "no other pipeline shares a sink"


def _model(pipeline: Pipeline, settings: Settings) -> Line:
    ref = ModelRef.parse(settings.model or pipeline.model)
    registry = Registry.at(settings.registry)
    try:
        is_there = bool(registry.versions(ref.name))
    except Unavailable as error:
        return Line(what="model", outcome=Outcome.FAILED, detail=str(error))
    if not is_there:
        detail = (
            f"no version of {ref.name!r} in {settings.registry}: headrace train, or headrace models register"
        )
        return Line(what="model", outcome=Outcome.ABSENT, detail=detail)

    def check() -> str:
        model = load_model(registry, ref, pipeline.engine, pipeline.batch)
        model.warm()
        inputs = ", ".join(f"{each.name} {each.text}" for each in model.manifest.inputs)
        return f"{model.ref} takes {inputs} and gives its known answer"

    return _line("model", check)


def _topics(pipeline: Pipeline, settings: Settings) -> Iterator[Line]:
    topics = Topics(settings.clients())
    try:
        there = topics.states()
    except Unavailable as error:
        yield Line(what="topics", outcome=Outcome.ABSENT, detail=str(error))
        return
    missing = [spec.name for spec in topic_specs(pipeline) if spec.name not in there]
    if missing:
        detail = f"{', '.join(missing)}: headrace topics {catalog.reference(pipeline)} --create"
        yield Line(what="topics", outcome=Outcome.ABSENT, detail=detail)
        return

    def check() -> str:
        topics.check(pipeline)
        check_sinks(pipeline, settings.clients())
        return (
            "; ".join(topics.misfits(pipeline))
            or f"{pipeline.source.topic} has {there[pipeline.source.topic]} partitions, and so have its predictions"
        )

    yield _line("topics", check)

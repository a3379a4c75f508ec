import dataclasses
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from features.errors import Misdeclared
from models.loading import load_model
from models.microbatch import BatchRule
from models.registry import ModelRef, Registry
from models.training.examples import split
from models.training.plan import TrainingPlan
from pipelines import card_fraud
from pipelines.datasets import nycflights13
from pipelines.flights import pipeline
from pipelines.pipeline import Pipeline
from pipelines.replay import replay
from pipelines.training import train_pipeline

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SHIPPED = Path(__file__).parents[2] / "registry"


def short() -> Pipeline:
    """The flights of January, a small network."""
    plan = TrainingPlan(
        train_until=datetime(2013, 1, 12, tzinfo=UTC),
        choose_until=datetime(2013, 1, 16, tzinfo=UTC),
        output="late",
        hidden=(8,),
        dropouts=(0.0,),
        epochs=1,
    )
    return dataclasses.replace(pipeline, training=plan)


@cache
def january() -> pa.Table:
    events = nycflights13.events()
    until = datetime(2013, 1, 20, tzinfo=UTC).timestamp() * 1000
    return events.filter(pc.less(events["time"], int(until)))


@pytest.mark.train
def test_recorded_events_become_a_version_that_loads_and_equal_events_the_same_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    registry = Registry.at(str(tmp_path))
    told: list[tuple[str, int, int]] = []
    ref = train_pipeline(short(), january(), registry, created=NOW, progress=lambda *step: told.append(step))
    assert str(ref) == "flights:1"
    assert told[-3:] == [("replay", len(january()), len(january())), ("model", 1, 1), ("baseline", 1, 1)]
    example = nycflights13.records(january())
    assert train_pipeline(short(), example, registry, created=NOW, revision="later") == ref
    load_model(registry, ref, pipeline.engine, BatchRule()).warm()


def test_a_pipeline_without_a_plan_is_refused(tmp_path: Path) -> None:
    unplanned = dataclasses.replace(pipeline, training=None)
    with pytest.raises(Misdeclared, match="'flights' declares no training"):
        train_pipeline(unplanned, january(), Registry.at(str(tmp_path)), created=NOW)


def test_a_plan_needs_labels() -> None:
    with pytest.raises(Misdeclared, match="training= and no labels="):
        dataclasses.replace(pipeline, labels=None)


def test_the_model_that_is_shipped_fits_the_pipeline_and_is_as_good_as_it_says() -> None:
    registry = Registry.at(str(SHIPPED))
    model = load_model(registry, ModelRef.parse(pipeline.model), pipeline.engine, pipeline.batch)
    model.warm()
    assert model.buckets == pipeline.batch.buckets
    training = model.manifest.training
    assert training is not None
    assert training.baseline is not None
    assert training.metrics.auc is not None
    assert training.baseline.metrics.auc is not None
    assert training.metrics.auc >= 0.72
    assert training.baseline.metrics.auc >= 0.62
    assert training.metrics.auc >= training.baseline.metrics.auc + 0.08
    assert [training.data.spans[name].rows for name in ("train", "choose", "test")] == [
        188_922,
        55_778,
        82_644,
    ]


def test_the_fraud_model_that_is_shipped_fits_its_pipeline_and_needs_the_streaming_features() -> None:
    registry, fraud = Registry.at(str(SHIPPED)), card_fraud.pipeline
    model = load_model(registry, ModelRef.parse(fraud.model), fraud.engine, fraud.batch)
    model.warm()
    training = model.manifest.training
    assert training is not None
    assert training.baseline is not None
    assert training.baseline.columns == ("amount", "hour")
    assert training.metrics.auc is not None
    assert training.baseline.metrics.auc is not None
    assert training.metrics.auc >= 0.9
    assert training.metrics.auc >= training.baseline.metrics.auc + 0.1


def test_the_fraud_model_that_is_shipped_was_trained_on_the_example_events() -> None:
    fraud = card_fraud.pipeline
    training = Registry.at(str(SHIPPED)).manifest(fraud.model).training
    assert fraud.example is not None
    assert fraud.training is not None
    assert training is not None
    assert split(replay(fraud, fraud.example()), fraud.engine, fraud.training).data == training.data

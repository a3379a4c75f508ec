"""Training on a small synthetic table; needs torch."""

import hashlib
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from features.engine import Engine
from features.errors import Misdeclared
from features.featureset import FeatureSet
from features.kernels.fold import MISSING_ID
from features.kinds import category, raw
from models.binding import Binding
from models.loading import load_model
from models.manifest import Stamp
from models.microbatch import BatchRule
from models.registry import ModelRef, Registry
from tests.models import shop
from tests.models.training.tables import plan, replayed

pytest.importorskip("torch")

from models.training.train import Trained, _check_agreement, train

pytestmark = [pytest.mark.train]

STAMP = Stamp(name="shop", created=shop.NOW, revision="4f2c1ab")


@cache
def trained() -> Trained:
    return train(replayed(), shop.engine(), plan(), STAMP)


def rows_of_test_span() -> pa.Table:
    table = replayed()
    until = int(plan().choose_until.timestamp() * 1000)
    keep = ~np.isnan(table["label"].to_numpy()) & (table["event_time"].to_numpy() >= until)
    return table.filter(pa.array(keep))


def run(model: bytes, block: NDArray[np.float32], codes: NDArray[np.int64]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.run(["fraud"], {"block": block, "codes": codes})
    return np.asarray(given)


def by_hand(table: pa.Table, vocabularies: Mapping[str, tuple[int, ...]]) -> tuple[Any, Any]:
    block = np.column_stack([table[name].to_numpy() for name in shop.FLOATS])
    codes = []
    for name in shop.CATEGORIES:
        code_of = {int(MISSING_ID): 1} | {id_: code for code, id_ in enumerate(vocabularies[name], 2)}
        codes.append([code_of.get(id_, 0) for id_ in table[name].to_pylist()])
    return block.astype(np.float32), np.array(codes, np.int64).T.copy()


def test_two_trainings_with_one_seed_give_the_same_file_and_manifest() -> None:
    shuffled = replayed().take(np.random.default_rng(3).permutation(4000))
    again = train(shuffled, shop.engine(), plan(), STAMP)
    assert again.model == trained().model
    assert again.manifest == trained().manifest
    assert again.manifest.sha256 == hashlib.sha256(again.model).hexdigest()


def test_another_seed_gives_another_file() -> None:
    assert train(replayed(), shop.engine(), plan(seed=1, epochs=1), STAMP).model != trained().model


def test_metrics_are_those_of_the_file_on_the_test_span() -> None:
    table, manifest = rows_of_test_span(), trained().manifest
    assert manifest.training is not None
    labels = table["label"].to_numpy()
    scores = run(trained().model, *by_hand(table, manifest.vocabularies)).astype(np.float64)
    found = manifest.training.metrics
    assert found.rows == len(labels) == manifest.training.data.spans["test"].rows
    assert found.auc == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-6)
    assert found.log_loss == pytest.approx(metrics.log_loss(labels, scores), abs=1e-6)
    assert found.brier == pytest.approx(metrics.brier_score_loss(labels, scores), abs=1e-6)
    order = np.argsort(scores)
    masses = zip(np.array_split(scores[order], 15), np.array_split(labels[order], 15), strict=True)
    ece = sum(abs(s.mean() - y.mean()) * len(s) for s, y in masses) / len(labels)
    assert found.ece == pytest.approx(ece, abs=2e-2)


def test_streaming_features_are_worth_what_the_baseline_lacks() -> None:
    training = trained().manifest.training
    assert training is not None
    assert training.baseline is not None
    assert training.baseline.columns == ("amount", "shop", "city")
    assert training.metrics.auc is not None
    assert training.baseline.metrics.auc is not None
    assert training.metrics.auc > 0.85
    assert training.metrics.auc > training.baseline.metrics.auc + 0.1
    assert training.baseline.metrics.rows == training.metrics.rows


def test_probabilities_are_calibrated_on_the_choose_span() -> None:
    table, manifest = replayed(), trained().manifest
    train_until, choose_until = plan().bounds
    times = table["event_time"].to_numpy()
    keep = (times >= train_until) & (times < choose_until) & ~np.isnan(table["label"].to_numpy())
    part = table.filter(pa.array(keep))
    scores = run(trained().model, *by_hand(part, manifest.vocabularies))
    assert scores.mean() == pytest.approx(part["label"].to_numpy().mean(), abs=2e-3)


def test_outcomes_that_a_column_decides_leave_a_finite_model() -> None:
    table = replayed()
    decided = pa.array((table["card.mean"].to_numpy() > 0).astype(np.float64))
    table = table.set_column(table.schema.get_field_index("label"), "label", decided)
    training = train(table, shop.engine(), plan(), STAMP).manifest.training
    assert training is not None
    assert training.metrics.auc is not None
    assert training.metrics.auc > 0.999
    assert training.metrics.log_loss is not None
    assert training.metrics.log_loss < 0.1


def test_the_file_copes_with_what_training_never_saw() -> None:
    block = np.array([[0, 10, 0], [0, np.nan, np.nan], [1e9, -1e9, np.inf]], np.float32)
    scores = run(trained().model, block, np.array([[2, 2], [0, 0], [1, 1]], np.int64))
    assert ((scores > 0) & (scores < 1)).all()


def test_a_missing_number_is_told_from_the_mean_where_training_saw_missing_ones() -> None:
    training = trained().manifest.training
    assert training is not None
    means = [training.numbers[name].mean for name in shop.FLOATS]
    without_amount, without_count = (
        [np.nan if i == hole else m for i, m in enumerate(means)] for hole in (0, 1)
    )
    codes = np.full((3, 2), 2, np.int64)
    at_mean, no_amount, no_count = run(
        trained().model, np.array([means, without_amount, without_count], np.float32), codes
    )
    assert at_mean != no_amount
    assert at_mean == pytest.approx(no_count, abs=1e-5)


def test_the_file_says_nothing_of_who_made_it() -> None:
    found = onnx.load_from_string(trained().model)
    assert (found.producer_name, found.producer_version, found.doc_string) == ("", "", "")
    assert b".py" not in trained().model
    assert not any(node.metadata_props or node.doc_string for node in found.graph.node)
    assert [each.name for each in found.graph.input] == ["block", "codes"]
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"


def test_lineage_tells_how_it_was_made() -> None:
    manifest, training = trained().manifest, trained().manifest.training
    assert training is not None
    assert (manifest.name, manifest.version, training.revision, training.seed) == ("shop", 0, "4f2c1ab", 0)
    assert training.hyperparameters["dropout"] == 0.0
    assert 1 <= training.hyperparameters["epoch"] <= 3
    assert set(training.libraries) == {"numpy", "onnx", "onnxruntime", "torch"}
    assert set(training.numbers) == set(shop.FLOATS)
    assert training.numbers["amount"].missing == pytest.approx(0.1, abs=0.02)
    assert training.categories["shop"].distinct == 3
    assert manifest.vocabularies["shop"] == (70, 50, 60)


def test_the_model_is_served_from_the_registry_with_the_same_outputs(tmp_path: object) -> None:
    registry = Registry.at(str(tmp_path))
    ref = registry.register(trained().model, trained().manifest)
    model = load_model(registry, ModelRef.parse("shop"), shop.engine(), BatchRule())
    model.warm()
    assert ref == model.ref
    assert model.buckets == BatchRule().buckets
    table = rows_of_test_span()
    block, codes = by_hand(table, model.manifest.vocabularies)
    ids = np.column_stack([table[name].to_numpy() for name in shop.CATEGORIES])
    np.testing.assert_allclose(
        model.predict(block, ids)["fraud"], run(trained().model, block, codes), atol=1e-6
    )


def test_progress_counts_every_epoch_of_both_models() -> None:
    told: list[tuple[str, int, int]] = []
    train(
        replayed(), shop.engine(), plan(epochs=2, dropouts=(0.0, 0.2)), STAMP, lambda *step: told.append(step)
    )
    assert told == [(what, done, 4) for what in ("model", "baseline") for done in (1, 2, 3, 4)]


@pytest.mark.parametrize("features", [{"amount": raw("amount")}, {"shop": category("shop")}])
def test_columns_may_be_numbers_or_categories_alone(features: dict[str, Any]) -> None:
    engine = Engine(shop.SCHEMA, [FeatureSet(features=features)])
    found = train(replayed(), engine, plan(epochs=1), STAMP)
    assert found.manifest.training is not None
    assert found.manifest.training.baseline is None
    assert sum(len(each.columns) for each in found.manifest.inputs) == 1
    Binding(found.manifest, engine)


def test_a_file_that_computes_something_else_than_torch_is_refused() -> None:
    _check_agreement(np.array([0.5], np.float32), np.array([0.500005], np.float32))
    with pytest.raises(Misdeclared, match=r"differ by 1\.\d+e-04 on the test span"):
        _check_agreement(np.array([0.1, 0.5], np.float32), np.array([0.1, 0.5001], np.float32))
    with pytest.raises(Misdeclared, match="differ by nan"):
        _check_agreement(np.array([math.nan], np.float32), np.array([0.5], np.float32))

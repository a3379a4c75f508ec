import json
from datetime import timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.kernels.fold import MISSING_ID
from models.lineage import (
    Baseline,
    CategorySummary,
    NumberSummary,
    Span,
    Training,
    TrainingData,
)
from models.manifest import Manifest, Sample
from models.quality import measure
from tests.models.shop import NOW, manifest


def complete() -> Manifest:
    quality = measure([0, 1], [0.25, 0.5])
    span = Span(begin=NOW, end=NOW + timedelta(days=1), rows=2, positives=1)
    numbers = np.array([1, np.nan, 3], np.float32)
    training = Training(
        data=TrainingData(digest="ab", rows=2, without_label=1, spans={"train": span}),
        numbers={"amount": NumberSummary.of(numbers)},
        categories={"shop": CategorySummary.of(np.array([7, 7, MISSING_ID], np.int64))},
        revision="[\n 1 ] of [ 2 ]",
        hyperparameters={"hidden": [64, 32]},
        seed=3,
        libraries={"torch": "2"},
        metrics=quality,
        baseline=Baseline(columns=("amount",), metrics=quality),
    )
    sample = Sample.of(
        np.array([[1.1, np.nan, 3]], np.float32),
        np.array([[-(2**63), 2**63 - 1]], np.int64),
        {"score": np.array([0.1], np.float32), "both": np.array([[np.nan, 2]], np.float32)},
    )
    return manifest(b"x", version=3, training=training, sample=sample, parent="shop:2")


def test_what_is_written_is_read() -> None:
    assert Manifest.read(complete().write(), "here") == complete()


def test_a_foreign_model_has_no_training() -> None:
    read = Manifest.read(manifest().write(), "here")
    assert read.training is None
    assert read.sample is None


def test_the_json_is_readable_and_lists_of_numbers_take_a_line() -> None:
    text = complete().write().decode()
    assert '\n  "name": "shop",' in text
    assert '"hidden": [64, 32]' in text
    assert json.loads(text)["training"]["revision"] == "[\n 1 ] of [ 2 ]"


@given(st.text())
def test_making_it_readable_changes_no_text(revision: str) -> None:
    training = msgspec.structs.replace(complete().training, revision=revision)  # type: ignore[type-var]
    written = msgspec.structs.replace(complete(), training=training).write()
    assert Manifest.read(written, "here").training == training


def test_a_sample_comes_back_with_its_bits() -> None:
    sample = Manifest.read(complete().write(), "here").sample
    assert sample is not None
    block, ids = sample.rows(3, 2)
    np.testing.assert_array_equal(block, np.array([[1.1, np.nan, 3]], np.float32))
    assert ids.tolist() == [[-(2**63), 2**63 - 1]]
    assert sample.outputs["both"] == [[None, 2.0]]


def test_unknown_fields_of_a_later_minor_format_are_ignored() -> None:
    plain = json.loads(complete().write())
    plain["invented"] = {"later": 1}
    plain["inputs"][0]["invented"] = True
    assert Manifest.read(json.dumps(plain).encode(), "here") == complete()


def test_a_later_format_is_refused_by_number() -> None:
    plain = json.loads(complete().write()) | {"format": 2, "inputs": "something else"}
    with pytest.raises(Misdeclared, match=r"models/shop/1 has format 2, .*up to 1; upgrade"):
        Manifest.read(json.dumps(plain).encode(), "models/shop/1")


@given(st.integers(0, len(complete().write()) - 3))
def test_a_torn_manifest_is_refused_wherever_it_is_torn(end: int) -> None:
    with pytest.raises(Misdeclared, match="here is torn or no manifest"):
        Manifest.read(complete().write()[:end], "here")


def test_a_summary_describes_what_is_there() -> None:
    summary = NumberSummary.of(np.array([4, np.nan, 2, 6], np.float32))
    assert (summary.count, summary.missing, summary.mean, summary.min, summary.max) == (4, 0.25, 4, 2, 6)
    assert summary.std == pytest.approx(np.std([4, 2, 6]))
    assert summary.quantiles["0.5"] == 4
    nothing = NumberSummary.of(np.array([np.nan], np.float32))
    assert (nothing.missing, nothing.mean, nothing.quantiles["0.5"]) == (1, None, None)
    assert NumberSummary.of(np.empty(0, np.float32)).count == 0


def test_a_summary_of_categories_counts_missing_apart() -> None:
    summary = CategorySummary.of(np.array([7, 7, MISSING_ID, 3], np.int64))
    assert (summary.count, summary.missing, summary.distinct) == (4, 0.25, 2)
    assert [(each.id, each.share) for each in summary.top] == [(7, 0.5), (3, 0.25)]
    assert CategorySummary.of(np.empty(0, np.int64)).top == ()

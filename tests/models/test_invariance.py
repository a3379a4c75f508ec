"""Outputs do not depend on the batch: docs/decisions/001-outputs-do-not-depend-on-the-batch.md."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.errors import Misdeclared
from models.invariance import PROBES, agreeing_buckets, probes
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from tests.models import onnx_files, shop

ALL = BatchRule().buckets
Block = NDArray[np.float32]
Ids = NDArray[np.int64]


def model_of(file: bytes, *, values: int = 1, rule: BatchRule | None = None) -> Model:
    declared = shop.manifest(file, inputs=[shop.block_input(name="x")], outputs=[shop.score(values)])
    return shop.loaded(file, declared, rule)


def in_batches(model: Model, block: Block, cuts: Sequence[int]) -> Block:
    edges = [0, *sorted({cut % len(block) for cut in cuts} - {0}), len(block)]
    ids = np.zeros((len(block), 2), np.int64)
    parts = [model.predict(block[a:b], ids[a:b])["score"] for a, b in itertools.pairwise(edges)]
    return np.concatenate(parts).astype(np.float32)


@settings(max_examples=40)
@given(
    hidden=st.lists(st.integers(1, 70), max_size=2),
    activation=st.sampled_from(["Relu", "Tanh", "Softplus", "Elu", "Selu", "Erf"]),
    seed=st.integers(0, 99),
    rows=st.integers(1, 1500),
    cuts=st.lists(st.integers(0, 1500), max_size=12),
)
def test_a_network_gives_the_same_bits_however_its_rows_are_batched(
    hidden: list[int], activation: str, seed: int, rows: int, cuts: list[int]
) -> None:
    model = model_of(onnx_files.perceptron([3, *hidden, 1], seed, activation))
    model.warm()
    assert model.buckets == ALL
    block, _ = shop.rows(rows, seed)
    whole, pieces = in_batches(model, block, []), in_batches(model, block, cuts)
    np.testing.assert_array_equal(whole.view(np.int32), pieces.view(np.int32))


@pytest.mark.parametrize(
    ("file", "values"),
    [(onnx_files.perceptron([3, 17, 1], 0, "Softplus"), 1), (onnx_files.elementwise("Log", 3), 3)],
)
def test_every_size_up_to_the_largest_gives_the_same_bits(file: bytes, values: int) -> None:
    model = model_of(file, values=values)
    model.warm()
    block, ids = shop.rows(1024)
    whole = model.predict(block, ids)["score"]
    for size in range(1, 1025):
        part = model.predict(block[-size:], ids[-size:])["score"]
        assert part.tobytes() == whole[-size:].tobytes(), size


def test_a_row_alone_of_computed_weights_takes_another_kernel_that_is_never_asked() -> None:
    model = model_of(onnx_files.computed_weights(3, 8), values=8)
    model.warm()
    assert model.buckets == ALL
    block, ids = shop.rows(20)
    alone = [model.predict(block[i : i + 1], ids[i : i + 1])["score"] for i in range(20)]
    assert np.concatenate(alone).tobytes() == model.predict(block, ids)["score"].tobytes()


def test_a_model_whose_scale_is_that_of_the_batch_is_refused() -> None:
    with pytest.raises(
        Misdeclared, match=r"depend on the batch it is in: output 'score'.*max_rows=1.*static"
    ):
        model_of(onnx_files.dynamically_quantised(3)).warm()


def test_a_mean_that_is_summed_by_address_is_refused() -> None:
    file = onnx_files.row_means(13)
    run = _run_of(file)
    block = np.random.default_rng(0).standard_normal((PROBES, 13)).astype(np.float32)
    with pytest.raises(Misdeclared, match="widths of sums and means that are multiples of 16"):
        agreeing_buckets(run, ALL, block, np.zeros((PROBES, 0), np.int64))


def test_run_row_by_row_every_model_is_accepted() -> None:
    model = model_of(onnx_files.dynamically_quantised(3), rule=BatchRule(max_rows=1))
    model.warm()
    block, ids = shop.rows(40)
    assert len(model.predict(np.nan_to_num(block), ids)["score"]) == 40


def test_sizes_that_disagree_with_the_largest_are_not_used() -> None:
    def run(block: Block, _: Ids) -> Mapping[str, NDArray[Any]]:
        other_kernel = len(block) in {16, 64}
        return {"score": block[:, 0] + np.float32(other_kernel)}

    block = np.ones((PROBES, 1), np.float32)
    buckets = agreeing_buckets(run, ALL, block, np.zeros((PROBES, 0), np.int64))
    assert buckets == (32, 128, 256, 512, 1024)


@pytest.mark.parametrize("largest", [16, 48, 1024])
def test_a_row_that_depends_on_its_place_is_found_in_every_size(largest: int) -> None:
    def run(block: Block, _: Ids) -> Mapping[str, NDArray[Any]]:
        out = block[:, 0].copy()
        out[-1] = np.nextafter(out[-1], np.float32(np.inf))
        return {"score": out}

    block = np.arange(PROBES, dtype=np.float32).reshape(-1, 1)
    with pytest.raises(Misdeclared, match="depend on the batch"):
        agreeing_buckets(run, BatchRule(max_rows=largest).buckets, block, np.zeros((PROBES, 0), np.int64))


def test_probes_lie_where_training_rows_did_and_hold_every_sort_of_id() -> None:
    block, ids = probes(shop.manifest())
    assert block.shape == (PROBES, 3)
    assert ids.shape == (PROBES, 2)
    assert {0, 70, 50, 60} <= set(ids[:, 0].tolist())
    np.testing.assert_array_equal(block, probes(shop.manifest())[0])


def _run_of(file: bytes) -> Any:

    runtime = OnnxRuntime.load(file)
    return lambda block, _: runtime.run({"x": onnx_files.as_input(block)})

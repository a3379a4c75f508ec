import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Malformed, Misdeclared
from models.loading import load_model
from models.manifest import Manifest, Output, Sample
from models.microbatch import BatchRule
from models.model import Model
from models.registry import ModelRef, Registry
from models.tensor import Array
from tests.models import onnx_files, shop
from tests.models.onnx_files import FLOAT, INT64, info, node

FILE = onnx_files.block_and_codes(3, 2)
SMALL = BatchRule(max_rows=32)


def expected(block: Array, ids: Array) -> Array:
    codes = {70: 2, 50: 3, 60: 4, -(2**63): 1}, {-5: 2, -(2**63): 1}
    hundreds = [100 * sum(codes[c].get(id_, 0) for c, id_ in enumerate(row)) for row in ids.tolist()]
    return np.asarray(block.astype(np.float64).sum(axis=1) + hundreds)


@given(st.integers(0, 100))
def test_every_row_has_its_output_in_batches_of_any_size(n: int) -> None:
    model = shop.loaded(FILE, shop.manifest(FILE), SMALL)
    block, ids = shop.rows(n)
    scores = model.predict(block, ids)["score"]
    assert scores.dtype == np.float32
    assert scores.shape == (n,)
    np.testing.assert_allclose(scores, expected(block, ids), rtol=1e-6)


def test_rows_may_lie_anywhere_in_memory() -> None:
    model = shop.loaded(FILE, shop.manifest(FILE), SMALL)
    block, ids = shop.rows(90)
    whole = model.predict(block, ids)["score"]
    np.testing.assert_array_equal(model.predict(block[1::2], ids[1::2])["score"], whole[1::2])
    columns_first = model.predict(np.asfortranarray(block), np.asfortranarray(ids))["score"]
    np.testing.assert_array_equal(columns_first, whole)


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        (shop.score(1), (40,)),
        (msgspec.structs.replace(shop.score(3), name="both"), (40, 3)),
        (msgspec.structs.replace(shop.score(3), name="both", column=2), (40,)),
    ],
)
def test_an_output_is_a_value_or_a_list_of_values_for_each_row(
    output: Output, shape: tuple[int, ...]
) -> None:
    file = onnx_files.model(
        [node("Identity", ["x"], ["both"]), node("ReduceSum", ["x", "last"], ["score"])],
        [info("x", FLOAT, "rows", 3)],
        [info("both", FLOAT, "rows", 3), info("score", FLOAT, "rows", 1)],
        last=np.array([1]),
    )
    declared = shop.manifest(file, inputs=[shop.block_input(name="x")], outputs=[output])
    model = shop.loaded(file, declared, SMALL)
    block, ids = np.nan_to_num(shop.rows(40)[0]), shop.rows(40)[1]
    given_values = model.predict(block, ids)["score"]
    assert given_values.shape == shape
    model.predict(block + 1, ids)
    if output.name == "both":  # the model's input itself, whose memory is used again
        np.testing.assert_array_equal(given_values, block if output.column is None else block[:, 2])
    assert model.predict(block[:0], ids[:0])["score"].shape == (0, *shape[1:])


def test_a_model_that_returns_another_number_of_rows_is_refused() -> None:
    file = onnx_files.model(
        [node("ReduceMax", ["x", "first"], ["score"])],
        [info("x", FLOAT, "rows", 3)],
        [info("score", FLOAT, "out", 3)],
        first=np.array([0]),
    )
    declared = shop.manifest(file, inputs=[shop.block_input(name="x")], outputs=[shop.score(3)])
    with pytest.raises(Misdeclared, match=r"Output 'score' has the shape \[1, 3\] for a batch of 16"):
        shop.loaded(file, declared).predict(*shop.rows(2))


def test_rows_that_the_runtime_can_not_compute_are_malformed_and_padding_never_is() -> None:
    file = onnx_files.lookup(4)
    declared = shop.manifest(file, inputs=[shop.codes_input(("shop",))])
    model = shop.loaded(file, declared, SMALL)
    block, ids = shop.rows(3)
    ids[:, 0] = [70, 50, 60]
    assert model.predict(block[:2], ids[:2])["score"].tolist() == [20, 30]
    with pytest.raises(Malformed, match="model_failed"):
        model.predict(block, ids)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            shop.manifest(inputs=[shop.block_input()]),
            r"takes int64\[rows, 2\] 'codes', and its manifest says nothing of it",
        ),
        (
            shop.manifest(inputs=[shop.block_input(("amount",)), shop.codes_input()]),
            r"Input 'block' of shop is float32\[rows, 1\] in the manifest and float32\[rows, 3\] in the model",
        ),
        (
            shop.manifest(inputs=[shop.block_input(dtype="float64"), shop.codes_input()]),
            r"Input 'block' of shop is float64\[rows, 3\] in the manifest",
        ),
        (
            shop.manifest(inputs=[shop.block_input(), shop.codes_input(), shop.block_input(name="more")]),
            "has the input 'more', and the model file has none such",
        ),
        (
            shop.manifest(outputs=[msgspec.structs.replace(shop.score(), name="scores")]),
            "has the output 'scores', and the model file has none such",
        ),
        (shop.manifest(outputs=[shop.score(1)]), "Output 'score' of shop is"),
    ],
)
def test_a_file_that_is_not_as_its_manifest_says_is_refused_naming_what(
    declared: Manifest, message: str
) -> None:
    with pytest.raises(Misdeclared, match=message):
        shop.loaded(FILE, declared)


def with_sample(change: float = 0.0) -> Model:
    declared = shop.manifest(FILE)
    block, ids = shop.rows(5)
    outputs = shop.loaded(FILE, declared).predict(block, ids)
    outputs["score"] = outputs["score"] + np.array([0, 0, change, 0, 0], np.float32)
    return shop.loaded(FILE, msgspec.structs.replace(declared, sample=Sample.of(block, ids, outputs)))


def test_a_stored_sample_has_its_known_outputs_nan_among_them() -> None:
    with_sample().warm()
    with_sample().check_sample()


def test_a_runtime_that_computes_something_else_is_found_by_the_sample() -> None:
    with pytest.raises(
        Misdeclared, match=r"shop: output 'score' of sample row 2 is [-\d.]+, and was [-\d.]+ when"
    ):
        with_sample(change=0.1).warm()


def test_a_sample_of_another_output_is_refused() -> None:
    declared = shop.manifest(FILE)
    block, ids = shop.rows(2)
    sample = Sample.of(block, ids, {"other": np.zeros(2, np.float32)})
    model = shop.loaded(FILE, msgspec.structs.replace(declared, sample=sample))
    with pytest.raises(Misdeclared, match="'other', which is not published"):
        model.check_sample()


def test_a_model_comes_from_the_registry_verified_and_bound(tmp_path: object) -> None:
    registry = Registry.at(str(tmp_path))
    registry.register(FILE, shop.manifest(FILE))
    model = load_model(registry, ModelRef.parse("shop"), shop.engine(), SMALL)
    model.warm()
    assert model.ref == ModelRef(name="shop", version=1, digest=shop.manifest(FILE).sha256)
    assert model.buckets == (16, 32)
    model.close()


def test_an_integer_output_may_be_published() -> None:
    file = onnx_files.model(
        [node("ArgMax", ["x"], ["best"], axis=1, keepdims=0)],
        [info("x", FLOAT, "rows", 3)],
        [info("best", INT64, "rows")],
    )
    best = Output(name="best", dtype="int64", shape=("rows",), published="best")
    model = shop.loaded(file, shop.manifest(file, inputs=[shop.block_input(name="x")], outputs=[best]))
    block = np.array([[1, 5, 2], [9, 1, 1]], np.float32)
    assert model.predict(block, np.zeros((2, 2), np.int64))["best"].tolist() == [1, 0]

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper

from features.errors import Misdeclared
from models.binding import Binding
from models.foreign import Wiring, foreign_manifest
from models.manifest import Manifest, Stamp
from models.microbatch import BatchRule
from models.model import Model
from models.onnx_runtime import OnnxRuntime
from models.registry import Registry
from models.vocabulary import Vocabulary
from tests.models import onnx_files, shop
from tests.models.onnx_files import BOOL, DOUBLE, FLOAT, INT64, info, node

STAMP = Stamp(name="shop", created=shop.NOW)
VOCABULARIES = {name: Vocabulary(ids=ids) for name, ids in shop.VOCABULARIES.items()}


def adopted(file: bytes, **wired: Any) -> Manifest:
    return foreign_manifest(file, shop.engine(), Wiring(**wired), STAMP)


def predict(file: bytes, declared: Manifest, n: int = 30) -> Mapping[str, np.ndarray[Any, Any]]:
    model = Model(declared, Binding(declared, shop.engine()), OnnxRuntime.load(file), BatchRule().buckets)
    model.warm()
    return model.predict(*shop.rows(n))


def test_a_float_input_as_wide_as_the_floats_takes_all_of_them() -> None:
    declared = adopted(onnx_files.row_sums(3))
    assert [each.columns for each in declared.inputs] == [shop.FLOATS]
    assert declared.training is None
    block, _ = shop.rows(30)
    np.testing.assert_allclose(
        predict(onnx_files.row_sums(3), declared)["score"], block @ np.array([1, 2, 3]), rtol=1e-5
    )


def test_an_integer_input_as_wide_as_the_categories_takes_their_codes() -> None:
    declared = adopted(onnx_files.block_and_codes(3, 2), vocabularies=VOCABULARIES)
    assert [each.columns for each in declared.inputs] == [shop.FLOATS, shop.CATEGORIES]
    assert declared == shop.manifest(onnx_files.block_and_codes(3, 2), sample=declared.sample)


def test_a_float_input_as_wide_as_all_columns_takes_floats_then_codes() -> None:
    declared = adopted(onnx_files.row_sums(5), vocabularies=VOCABULARIES)
    assert [each.columns for each in declared.inputs] == [(*shop.FLOATS, *shop.CATEGORIES)]


def test_inputs_named_like_columns_take_those() -> None:
    file = onnx_files.model(
        [
            node("Cast", ["shop"], ["code"], to=FLOAT),
            node("Squeeze", ["card.n", "last"], ["flat"]),
            node("Sum", ["amount", "flat", "code"], ["score"]),
        ],
        [info("amount", FLOAT, "N"), info("card.n", FLOAT, None, 1), info("shop", INT64, "N")],
        [info("score", FLOAT, "N")],
        last=np.array([1]),
    )
    declared = adopted(file, vocabularies=VOCABULARIES)
    assert [(each.name, each.columns, each.shape) for each in declared.inputs] == [
        ("amount", ("amount",), ("rows",)),
        ("card.n", ("card.n",), ("rows", 1)),
        ("shop", ("shop",), ("rows",)),
    ]
    assert predict(file, declared)["score"].shape == (30,)


def test_an_input_takes_what_it_is_told() -> None:
    declared = adopted(onnx_files.row_sums(2), inputs={"x": ("card.mean", "amount")})
    block, _ = shop.rows(30)
    np.testing.assert_allclose(
        predict(onnx_files.row_sums(2), declared)["score"], block[:, 2] + 2 * block[:, 0], rtol=1e-6
    )


def test_a_width_that_the_file_leaves_open_is_that_of_the_named_columns() -> None:
    file = onnx_files.model(
        [node("ReduceSum", ["x", "last"], ["score"], keepdims=0)],
        [info("x", FLOAT, None, None)],
        [info("score", FLOAT, None)],
        last=np.array([1]),
    )
    with pytest.raises(Misdeclared, match=r"float32\[\?, \?\].*--input x=amount,card.n"):
        adopted(file)
    assert adopted(file, inputs={"x": ("amount", "card.n")}).inputs[0].shape == ("rows", 2)


def test_a_foreign_model_has_a_sample_for_the_deep_check_and_can_be_registered(tmp_path: object) -> None:
    file = onnx_files.row_sums(3)
    registry = Registry.at(str(tmp_path))
    registry.register(file, adopted(file))
    sample = registry.manifest("shop").sample
    assert sample is not None
    assert len(sample.block) == 4


def classifier(*, zipmap: bool = False) -> bytes:
    """What skl2onnx makes of a logistic regression."""
    scores = "raw" if zipmap else "probabilities"
    nodes = [
        node(
            "LinearClassifier", ["X"], ["label", scores], domain="ai.onnx.ml", coefficients=[-1.0, 0, 0, 1, 0, 0],
            intercepts=[0.0, 0.5], classlabels_ints=[0, 1], post_transform="SOFTMAX",
        )
    ]  # fmt: skip
    outputs = [info("label", INT64, None)]
    if zipmap:
        nodes.append(
            node("ZipMap", ["raw"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
        )
        value = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, None))
        outputs.append(helper.make_value_info("probabilities", helper.make_sequence_type_proto(value)))
    else:
        outputs.append(info("probabilities", FLOAT, None, 2))
    return onnx_files.model(nodes, [info("X", FLOAT, None, 3)], outputs)


def test_a_classifier_publishes_its_probabilities_and_not_its_label() -> None:
    declared = adopted(classifier())
    assert [(each.name, each.published) for each in declared.outputs] == [("probabilities", "probabilities")]
    block, _ = shop.rows(30)
    found = predict(classifier(), declared)["probabilities"]
    known = ~np.isnan(block).any(axis=1)
    np.testing.assert_allclose(found[known, 1], 1 / (1 + np.exp(-(2 * block[known, 0] + 0.5))), rtol=1e-5)


def test_one_column_of_an_output_may_be_published() -> None:
    declared = adopted(classifier(), outputs={"probabilities[1]": "fraud"})
    both = predict(classifier(), adopted(classifier()))["probabilities"]
    np.testing.assert_array_equal(predict(classifier(), declared)["fraud"], both[:, 1])


def test_zipmap_is_refused_with_the_fix() -> None:
    with pytest.raises(Misdeclared, match=r"'probabilities' is seq\(map.*options={'zipmap': False}"):
        adopted(classifier(zipmap=True))
    with pytest.raises(Misdeclared, match="zipmap"):
        adopted(classifier(zipmap=True), outputs={"probabilities": "fraud"})
    assert adopted(classifier(zipmap=True), outputs={"label": "fraud"}).outputs[0].dtype == "int64"


def single(kind: int, *shape: int | str | None, output: tuple[int | str | None, ...] = ("N", 3)) -> bytes:
    return onnx_files.model(
        [node("Cast", ["x"], ["y"], to=FLOAT)], [info("x", kind, *shape)], [info("y", FLOAT, *output)]
    )


@pytest.mark.parametrize(
    ("file", "wired", "message"),
    [
        (single(FLOAT, 8, 3), {}, r"Input 'x' is float32\[8, 3\]: it takes exactly 8 rows; export .*dynamic"),
        (single(FLOAT, "N", 3, output=(1, 3)), {}, "Output 'y' .* always has 1 rows; export"),
        (
            single(FLOAT, "N", 7),
            {},
            r"'x' is float32\[N, 7\], and the pipeline has 3 float and 2 category columns",
        ),
        (single(FLOAT, "N", 3, 3), {}, r"'x' is float32\[N, 3, 3\]; a model takes"),
        (single(BOOL, "N", 3), {}, r"Input 'x' is bool\[N, 3\]"),
        (single(FLOAT, "N", 3), {"inputs": {"z": ("amount",)}}, "--input z=.*has none such; it has 'x'"),
        (single(FLOAT, "N", 3), {"outputs": {"z[1]": "s"}}, "--output z=.*has none such; it has 'y'"),
        (single(FLOAT, "N", 3), {"outputs": {"y[3]": "s"}}, r"'y' is float32\[N, 3\] and has no column 3"),
        (single(FLOAT, "N", 3), {"inputs": {"x": ("amount", "shpo", "city")}}, "did you mean 'shop'"),
        (
            single(FLOAT, "N", 3),
            {"inputs": {"x": ("amount", "card.n")}},
            r"--input x=amount,card\.n: float32\[N, 3\] takes 3 columns, and these are 2",
        ),
        (single(INT64, "N", 2), {}, "the category 'shop' as a code, and there is no vocabulary"),
        (
            single(INT64, "N", 1),
            {"inputs": {"x": ("amount",)}},
            "is int64, and takes 'amount', which is float32",
        ),
    ],
)
def test_what_can_not_be_wired_is_refused_with_the_fix(
    file: bytes, wired: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misdeclared, match=message):
        adopted(file, **wired)


def test_doubles_are_fed_doubles() -> None:
    declared = adopted(single(DOUBLE, "N", 3))
    assert declared.inputs[0].dtype == "float64"
    block, _ = shop.rows(30)
    np.testing.assert_array_equal(predict(single(DOUBLE, "N", 3), declared)["y"], block)


@pytest.mark.parametrize(("width", "shape"), [(3, ("rows", 3)), (1, ("rows", 1))])
def test_a_width_that_the_file_leaves_open_is_the_one_that_comes_out(
    width: int, shape: tuple[str | int, ...]
) -> None:
    columns = shop.FLOATS[:width]
    file = single(FLOAT, "N", width, output=("N", None))
    assert adopted(file, inputs={"x": columns}).outputs[0].shape == shape

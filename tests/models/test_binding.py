from datetime import timedelta

import msgspec
import numpy as np
import pytest

from features.errors import Misdeclared
from features.kernels.fold import MISSING_ID
from models.binding import Binding
from models.manifest import Column, Input, Manifest
from models.tensor import Array
from tests.models.shop import (
    CATEGORIES,
    FLOATS,
    block_input,
    codes_input,
    engine,
    manifest,
    rows,
)

BLOCK = np.array([[1, 2, 3], [4, 5, np.nan]], np.float32)
IDS = np.array([[50, -5], [999, MISSING_ID]], np.int64)


def bind(*inputs: Input) -> dict[str, Array]:
    return filled(Binding(manifest(inputs=inputs), engine()), BLOCK, IDS)


def filled(binding: Binding, block: Array, ids: Array, rows: int | None = None) -> dict[str, Array]:
    room = binding.room(len(block) if rows is None else rows)
    binding.fill(block, ids, room)
    return room


def test_an_input_may_be_the_block() -> None:
    np.testing.assert_array_equal(bind(block_input())["block"], BLOCK)


@pytest.mark.parametrize("more", [0, 1, 14])
def test_the_last_row_is_repeated_to_the_end(more: int) -> None:
    binding = Binding(manifest(), engine())
    exact, longer = filled(binding, BLOCK, IDS), filled(binding, BLOCK, IDS, len(BLOCK) + more)
    for name, array in exact.items():
        np.testing.assert_array_equal(longer[name], np.append(array, array[[-1] * more], axis=0))


def test_category_columns_are_vocabulary_codes() -> None:
    codes = bind(codes_input())["codes"]
    assert codes.dtype == np.int64
    assert codes.tolist() == [[3, 2], [0, 1]]


def test_an_input_may_take_some_columns_in_another_order() -> None:
    np.testing.assert_array_equal(
        bind(block_input(("card.mean", "amount")))["block"], np.array([[3, 1], [np.nan, 4]], np.float32)
    )
    assert bind(codes_input(("city", "shop"), dtype="int32"))["codes"].tolist() == [[2, 3], [1, 0]]


def test_floats_and_codes_may_share_an_input() -> None:
    mixed = bind(block_input(("shop", *FLOATS, "city"), dtype="float64"))["block"]
    assert mixed.dtype == np.float64
    np.testing.assert_array_equal(mixed, [[3, 1, 2, 3, 2], [0, 4, 5, np.nan, 1]])


@pytest.mark.parametrize("shape", [("rows",), ("rows", 1)])
def test_an_input_may_be_one_column(shape: tuple[str | int, ...]) -> None:
    found = bind(
        block_input(("card.n",), name="n", shape=shape), codes_input(("shop",), name="shop", shape=shape)
    )
    assert found["n"].shape == found["shop"].shape == (2, *shape[1:])
    assert found["n"].ravel().tolist() == [2, 5]
    assert found["shop"].ravel().tolist() == [3, 0]


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_inputs_have_a_row_for_each_row(n: int) -> None:
    inputs = filled(Binding(manifest(), engine()), *rows(n))
    assert {name: array.shape for name, array in inputs.items()} == {"block": (n, 3), "codes": (n, 2)}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            manifest(column_fingerprint="0123"),
            r"Model shop is bound to column fingerprint 0123, and the pipeline's is \w+: .*another meaning",
        ),
        (
            manifest(version=3, columns=(Column(name="amuont", dtype="float32"),)),
            r"Model shop:3 needs the column 'amuont', .* did you mean 'amount'\?",
        ),
        (
            manifest(columns=(Column(name="shop", dtype="float32"),)),
            "'shop' as float32, and the pipeline's is int64",
        ),
        (manifest(columns=manifest().columns[:-1]), "made for 4 columns, and the pipeline also has 'city'"),
        (manifest(columns=manifest().columns[::-1]), "5 columns, and the pipeline's are in another order"),
        (
            manifest(inputs=[block_input(("card.men",))]),
            r"Input 'block' takes the column 'card\.men', .* did you mean 'card\.mean'",
        ),
        (
            manifest(inputs=[codes_input(("amount",))]),
            "Input 'codes' is int64, and takes 'amount', which is float32; make .* float32 or float64",
        ),
        (manifest(vocabularies={}), "takes the category 'shop' as a code, and there is no vocabulary"),
        (
            manifest(inputs=[block_input(shape=("rows", 4))]),
            r"is float32\[rows, 4\] and takes 3 columns; name 4",
        ),
        (manifest(inputs=[block_input(shape=(8, 3))]), r"is float32\[8, 3\]; it has to be \[rows\]"),
        (manifest(inputs=[block_input(shape=("rows",))]), "takes 3 columns; name 1"),
        (manifest(inputs=[block_input(dtype="float16")]), "make the model's input float32 or float64"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_sides_and_the_fix(declared: Manifest, message: str) -> None:
    with pytest.raises(Misdeclared, match=message):
        Binding(declared, engine())


def test_a_pipeline_whose_window_changed_is_refused() -> None:
    with pytest.raises(Misdeclared, match="a window, field, predicate, key or time zone changed"):
        Binding(manifest(), engine(timedelta(hours=2)))


def test_every_column_of_the_engine_is_in_the_manifest_in_the_order_of_replayed_tables() -> None:
    names = [column.name for column in manifest().columns]
    assert names == [*FLOATS, *CATEGORIES]
    assert msgspec.structs.asdict(manifest().columns[-1]) == {"name": "city", "dtype": "int64"}

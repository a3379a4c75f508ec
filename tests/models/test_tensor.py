import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tensor import ALIGNMENT, Tensor, padded


@given(
    rows=st.integers(1, 40),
    more=st.integers(0, 40),
    shape=st.sampled_from([(), (1,), (7,)]),
    dtype=st.sampled_from([np.float32, np.int64]),
    start=st.integers(0, 3),
)
def test_padding_repeats_the_last_row_at_an_aligned_address(
    rows: int, more: int, shape: tuple[int, ...], dtype: type[np.generic], start: int
) -> None:
    array = np.random.default_rng(0).integers(0, 99, (rows + start, *shape)).astype(dtype)[start:]
    out = padded(array, rows + more)
    assert (out.dtype, out.shape) == (array.dtype, (rows + more, *shape))
    assert out.flags.c_contiguous
    assert out.ctypes.data % ALIGNMENT == 0
    np.testing.assert_array_equal(out[:rows], array)
    np.testing.assert_array_equal(out[rows:], np.repeat(array[-1:], more, axis=0))


def test_an_array_that_is_right_already_is_not_copied() -> None:
    array = padded(np.ones((3, 5), np.float32), 16)
    assert padded(array, 16) is array


@pytest.mark.parametrize(
    ("shape", "dtype", "is_other"),
    [
        (("n", 3), "float32", False),
        ((None, None), "float32", False),
        (("rows", 4), "float32", True),
        (("rows",), "float32", True),
        (("rows", 3), "float64", True),
    ],
)
def test_tensors_disagree_unless_an_array_could_be_both(
    shape: tuple[int | str | None, ...], dtype: str, is_other: bool
) -> None:
    declared = Tensor(name="x", dtype="float32", shape=("rows", 3))
    assert declared.disagrees(Tensor(name="x", dtype=dtype, shape=shape)) is is_other
    assert declared.text == "float32[rows, 3]"

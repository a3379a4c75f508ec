import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.tensor import ALIGNMENT, Tensor, aligned


@given(
    shape=st.sampled_from([(0,), (1,), (16, 7), (3, 0)]),
    dtype=st.sampled_from([np.float32, np.int64]),
)
def test_an_array_starts_at_an_aligned_address(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = aligned(shape, np.dtype(dtype))
    assert array.dtype == dtype
    assert array.shape == shape
    assert array.flags.c_contiguous
    assert not array.size or array.ctypes.data % ALIGNMENT == 0


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

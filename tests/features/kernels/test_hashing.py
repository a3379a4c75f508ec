import xxhash
from hypothesis import given
from hypothesis import strategies as st

from features.kernels.hashing import xxh64_of


@given(st.binary(max_size=200))
def test_xxh64_is_the_reference_implementations(data: bytes) -> None:
    assert xxh64_of(data) == xxhash.xxh64_intdigest(data)

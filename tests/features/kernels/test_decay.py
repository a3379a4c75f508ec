from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.kernels.decay import decay


@given(age=st.integers(0, 10**13), half_life=st.integers(1, 10**11))
def test_it_is_a_power_of_two_to_the_last_digits(age: int, half_life: int) -> None:
    with localcontext(prec=40):
        exact = Decimal(2) ** (-Decimal(age / half_life)) if age / half_life <= 1022 else Decimal(0)
        assert abs(Decimal(decay(age, half_life)) - exact) <= exact * Decimal("1e-15")


@pytest.mark.parametrize(
    ("age", "bits"),
    [
        (0, "0x1.0000000000000p+0"),
        (1, "0x1.fff30591fa067p-1"),
        (3_333, "0x1.7013471593c81p-1"),
        (7_001, "0x1.fff30591fa067p-2"),
        (1_000_003, "0x1.1a901e68c34e8p-143"),
    ],
)
def test_its_bits_are_these_on_every_processor(age: int, bits: str) -> None:
    assert decay(age, 7_000).hex() == bits

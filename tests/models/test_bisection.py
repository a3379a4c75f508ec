import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Malformed, Misdeclared
from models.bisection import Answers, Block, Ids, predict_bisecting


class PoisonedModel:
    """Doubles its rows, and fails at a batch that holds a poisoned one."""

    def __init__(self, poison: set[int]) -> None:
        self.poison, self.calls = poison, 0

    def __call__(self, block: Block, ids: Ids) -> Answers:
        self.calls += 1
        if found := sorted(self.poison & set(ids[:, 0].tolist())):
            raise Malformed("model_failed", f"row {found[0]}")
        return {"double": block[:, 0] * 2, "both": np.repeat(block, 2, axis=1)}


@given(rows=st.integers(1, 70), poison=st.sets(st.integers(0, 69), max_size=4))
def test_every_row_but_the_poisoned_ones_is_answered(rows: int, poison: set[int]) -> None:
    block, ids = np.arange(rows, dtype=np.float32).reshape(-1, 1), np.arange(rows).reshape(-1, 1)
    poisoned = {row for row in poison if row < rows}
    model = PoisonedModel(poisoned)
    answers, failed = predict_bisecting(model, lambda: None, block, ids)
    assert set(failed) == poisoned
    good = [row for row in range(rows) if row not in poisoned]
    np.testing.assert_array_equal(answers["double"][good], block[good, 0] * 2)
    assert np.isnan(answers["both"][sorted(poisoned)]).all()
    assert model.calls <= 1 + len(poisoned) * (2 * int(np.ceil(np.log2(max(rows, 2)))) + 1) + (
        len(poisoned) == rows
    )


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_model_that_fails_at_its_known_row_as_well_is_itself_at_fault(rows: int) -> None:
    block, ids = np.zeros((rows, 1), np.float32), np.arange(rows).reshape(-1, 1)

    def check() -> None:
        raise Misdeclared("the sample is another")

    with pytest.raises(Misdeclared, match="the sample is another"):
        predict_bisecting(PoisonedModel(set(range(rows))), check, block, ids)

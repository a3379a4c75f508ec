import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.errors import Misdeclared
from features.kernels.fold import MISSING_ID
from models.vocabulary import Vocabulary

BIGGEST = np.iinfo(np.int64).max
IDS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([int(MISSING_ID), int(BIGGEST), 0, 1, -1])


@given(known=st.lists(IDS.filter(lambda i: i != MISSING_ID), unique=True), asked=st.lists(IDS))
def test_codes_are_places_in_the_vocabulary_behind_unknown_and_missing(
    known: list[int], asked: list[int]
) -> None:
    asked += known
    codes = {MISSING_ID: 1} | {id_: code for code, id_ in enumerate(known, 2)}
    encoded = Vocabulary(ids=tuple(known)).encode(np.array(asked, np.int64))
    assert encoded.dtype == np.int64
    assert encoded.tolist() == [codes.get(id_, 0) for id_ in asked]


def test_the_most_frequent_id_comes_first_and_equal_counts_by_id() -> None:
    ids = np.array([9, 4, 4, MISSING_ID, MISSING_ID, MISSING_ID, 7, 9, 1, 9], np.int64)
    learned = Vocabulary.learn(ids)
    assert learned.ids == (9, 4, 1, 7)
    assert len(learned) == 6


def test_a_vocabulary_of_nothing_knows_missing_from_unknown() -> None:
    empty = Vocabulary.learn(np.empty(0, np.int64))
    assert empty.encode(np.array([5, MISSING_ID, BIGGEST], np.int64)).tolist() == [0, 1, 0]


@pytest.mark.parametrize("ids", [(3, 3), (int(MISSING_ID),)])
def test_an_id_with_two_codes_is_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(Misdeclared, match="twice"):
        Vocabulary(ids=ids)

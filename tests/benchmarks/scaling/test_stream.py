from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks.scaling.stream import SLICE, Stream, churning, growing, regular, uniform
from features.columns import Columns
from pipelines.card_fraud import pipeline

STREAMS = [uniform(50, 600.0), regular(50, 600.0), growing(10, 100.0), churning(40, 6, 1800.0)]


def slices(stream: Stream, number: int) -> list[Columns]:
    return list(islice(stream.slices(1), number))


def cards(columns: Columns) -> list[int]:
    return [int(text or "", 16) for text in columns.texts("card")]


@pytest.mark.parametrize("stream", STREAMS)
def test_the_engine_takes_every_event_as_a_payment_of_its_card(stream: Stream) -> None:
    state, seen = pipeline.engine.new_partition(), set[int]()
    for columns in slices(stream, 5):
        assert set(columns.texts("kind")) == {"payment"}
        rows = state.process(columns)
        assert len(rows.events) == SLICE
        assert_array_equal(rows.block[:, 0], columns.number("amount").astype(np.float32))
        seen |= set(cards(columns))
        assert state.keys == len(seen)


@pytest.mark.parametrize("stream", STREAMS)
def test_the_same_seed_gives_the_same_events_and_time_never_goes_back(stream: Stream) -> None:
    once, again = slices(stream, 3), slices(stream, 3)
    for one, other in zip(once, again, strict=True):
        assert_array_equal(one.words, other.words)
        assert_array_equal(one.buffer, other.buffer)
    times = np.concatenate([columns.times for columns in once])
    assert (np.diff(times) >= 0).all()


def test_regular_cards_have_an_event_in_every_interval() -> None:
    columns = slices(regular(50, 600.0), 1)[0]
    mine = columns.times[np.array(cards(columns)) == 7]
    assert (np.diff(mine) == 600_000).all()


def test_every_tenth_event_of_a_growing_stream_is_of_a_new_card() -> None:
    found = [card for columns in slices(growing(10, 100.0), 3) for card in cards(columns)]
    assert len(set(found)) == len(found) / 10
    assert found[20] == 2
    assert max(found[:20]) == 1


def test_cards_that_churn_are_never_seen_again() -> None:
    found = [card for columns in slices(churning(40, 6, 1800.0), 5) for card in cards(columns)]
    assert min(found[-6:]) > max(found[:240])

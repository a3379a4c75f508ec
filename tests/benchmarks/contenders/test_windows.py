"""The contenders do the same work: their rows are Headrace's."""

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.contenders.handwritten_windows import (
    COLUMNS,
    LENGTHS_MS,
    NEVER_SECONDS,
    TILES_MS,
    CardWindows,
)
from benchmarks.contenders.plain_windows import PlainWindows
from benchmarks.contenders.task import Payment
from features.windows import Window
from pipelines.card_fraud import DAY, WINDOWS, pipeline
from tests.benchmarks.streams import Events, events_over_days, rows_of_headrace


def rows_by_hand(events: Events, at_once: int) -> NDArray[np.float32]:
    windows = CardWindows()
    parts = [windows.rows(events[start : start + at_once]) for start in range(0, len(events), at_once)]
    return np.concatenate([block[is_payment] for block, is_payment in parts])


@pytest.mark.parametrize(("cards", "days"), [(1, 0.1), (7, 1.0), (40, 4.0)])
def test_the_handwritten_rows_equal_headraces(cards: int, days: float) -> None:
    events = events_over_days(4000, cards, days)
    np.testing.assert_allclose(rows_by_hand(events, 700), rows_of_headrace(events), rtol=1e-6)


def test_more_cards_than_there_was_room_for_keep_their_state() -> None:
    events = events_over_days(8000, 3000, 0.5)
    np.testing.assert_allclose(rows_by_hand(events, 4000), rows_of_headrace(events), rtol=1e-6)


def test_the_plain_rows_equal_headraces() -> None:
    events = events_over_days(4000, 20, 2.0)
    windows = PlainWindows()
    rows = [
        windows.row(event.card, event.ts, event.amount if isinstance(event, Payment) else None)
        for event in events
    ]
    np.testing.assert_allclose(
        np.array([row for row in rows if row], np.float32), rows_of_headrace(events), rtol=1e-6
    )


def test_windows_and_columns_are_the_pipelines() -> None:
    windows = [Window(length) for length in WINDOWS]
    assert LENGTHS_MS.tolist() == [window.length_ms for window in windows]
    assert TILES_MS.tolist() == [window.tile_ms for window in windows]
    assert len(pipeline.engine.float_columns) == COLUMNS
    assert NEVER_SECONDS == DAY

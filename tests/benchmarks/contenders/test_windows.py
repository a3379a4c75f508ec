"""The contenders do the same work: their rows are Headrace's."""

import numpy as np
import pytest

from benchmarks.contenders.handwritten_windows import COLUMNS, LENGTHS_MS, TILES_MS, UserWindows
from benchmarks.contenders.plain_windows import PlainWindows
from benchmarks.payments import WINDOWS, pipeline
from features.windows import Window
from tests.benchmarks.streams import payments_over_days, rows_of_headrace


@pytest.mark.parametrize(("users", "days"), [(1, 0.1), (7, 1.0), (40, 4.0)])
def test_the_handwritten_rows_equal_headraces(users: int, days: float) -> None:
    events = payments_over_days(4000, users, days)
    windows = UserWindows()
    rows = np.concatenate([windows.rows(events[start : start + 700]) for start in range(0, len(events), 700)])
    np.testing.assert_allclose(rows, rows_of_headrace(events), rtol=1e-6)


def test_more_users_than_there_was_room_for_keep_their_state() -> None:
    events = payments_over_days(8000, 3000, 0.5)
    windows = UserWindows()
    rows = np.concatenate([windows.rows(events[:4000]), windows.rows(events[4000:])])
    np.testing.assert_allclose(rows, rows_of_headrace(events), rtol=1e-6)


def test_the_plain_rows_equal_headraces() -> None:
    events = payments_over_days(4000, 20, 2.0)
    windows = PlainWindows()
    rows = [windows.row(event.user_id, event.ts, event.amount, online=event.is_online) for event in events]
    np.testing.assert_allclose(np.array(rows, np.float32), rows_of_headrace(events), rtol=1e-6)


def test_windows_and_columns_are_the_pipelines() -> None:
    windows = [Window(length) for length in WINDOWS]
    assert LENGTHS_MS.tolist() == [window.length_ms for window in windows]
    assert TILES_MS.tolist() == [window.tile_ms for window in windows]
    assert len(pipeline.engine.float_columns) == COLUMNS

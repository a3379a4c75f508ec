from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from features.errors import Misdeclared
from models.training.plan import TrainingPlan
from tests.models.training.tables import plan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_until": datetime(2026, 1, 1)}, "train_until .* is not in UTC"),  # noqa: DTZ001 - the mistake
        ({"choose_until": datetime(2026, 1, 9, tzinfo=timezone(timedelta(hours=1)))}, "choose_until .* UTC"),
        ({"choose_until": datetime(2026, 1, 7, tzinfo=UTC)}, "choose_until .* is not after train_until"),
        ({"epochs": 0}, "epochs is 0; at least 1"),
        ({"hidden": (8, 0)}, r"hidden is \(8, 0\)"),
        ({"dropouts": ()}, r"dropouts is \(\)"),
        ({"dropouts": (1.0,)}, "shares from 0 to below 1"),
        ({"learning_rate": 0}, "learning_rate is positive"),
    ],
)
def test_a_plan_that_can_not_be_followed_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Misdeclared, match=message):
        plan(**changes)


def test_spans_end_at_milliseconds_since_the_epoch() -> None:
    declared = TrainingPlan(
        train_until=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), choose_until=datetime(1970, 1, 2, tzinfo=UTC)
    )
    assert declared.bounds == (1000, 86_400_000)


def test_hyperparameters_are_what_a_manifest_can_hold() -> None:
    assert plan().hyperparameters()["hidden"] == [8]

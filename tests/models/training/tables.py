"""Replayed tables of the shop, with outcomes that streaming features foretell."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from features.kernels.fold import MISSING_ID
from models.training.plan import TrainingPlan

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def plan(**changes: Any) -> TrainingPlan:
    declared: dict[str, Any] = {
        "train_until": START + 6 * DAY,
        "choose_until": START + 8 * DAY,
        "output": "fraud",
        "hidden": (8,),
        "embedding": 3,
        "dropouts": (0.0,),
        "epochs": 3,
        "batch_rows": 128,
        "learning_rate": 0.02,
    }
    return TrainingPlan(**declared | changes)


def replayed(rows: int = 4000, seed: int = 0) -> pa.Table:
    """Ten days of rows; one in twenty has no label, one in ten no amount."""
    generator = np.random.default_rng(seed)
    amount, count, mean = generator.standard_normal((3, rows))
    shops = np.array([70, 50, 60, MISSING_ID], np.int64)
    shop = generator.choice(shops, rows, p=[0.5, 0.3, 0.15, 0.05])
    city = generator.choice(np.array([-5, 8], np.int64), rows)
    logit = 0.5 * amount + 2 * mean + (shop == 50) - 1.5
    label = (generator.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float64)
    amount[generator.random(rows) < 0.1] = np.nan
    label[generator.random(rows) < 0.05] = np.nan
    times = np.sort(generator.integers(0, 10 * 86_400_000, rows)) + int(START.timestamp() * 1000)
    return pa.table(
        {
            "partition": pa.array(np.zeros(rows, np.int32)),
            "offset": np.arange(rows),
            "event_time": times,
            "amount": amount.astype(np.float32),
            "card.n": (10 + 3 * count).round().astype(np.float32),
            "card.mean": mean.astype(np.float32),
            "shop": shop,
            "city": city,
            "features_digest": generator.integers(0, 2**63, rows).astype(np.uint64),
            "label": pa.array(label, mask=np.isnan(label)),
        }
    )

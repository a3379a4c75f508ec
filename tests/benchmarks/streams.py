"""Payments over hours, so that every window slides, and their rows as Headrace computes them."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders.task import Chargeback, Payment
from features.decode import RecordDecoder
from features.records import NO_TIMESTAMP, Records
from pipelines.card_fraud import pipeline, schema

START_MS = 1_700_000_000_000
_LATEST_MS = 50_000

Events = list[Payment | Chargeback]


def events_over_days(events: int, cards: int, days: float, seed: int = 1) -> Events:
    """Some are behind others by up to 50 s, and every twentieth is a chargeback."""
    random = np.random.default_rng(seed)
    times = np.sort(START_MS + random.integers(0, int(days * 86_400_000), events))
    times -= random.integers(0, _LATEST_MS, events) * (random.random(events) < 0.3)
    return [
        Chargeback(payment_id=f"{i:016x}", card=f"card_{random.integers(cards)}", ts=time)
        if random.random() < 0.05
        else Payment(
            payment_id=f"{i:016x}",
            card=f"card_{random.integers(cards)}",
            ts=time,
            amount=round(float(random.lognormal(3, 1)), 2),
            merchant="m_1",
            category="coffee",
            device="dev_1",
            country="DE",
            online=True,
        )
        for i, time in enumerate(times.tolist())
    ]


def rows_of_headrace(events: Events) -> NDArray[np.float32]:
    """``(payments, columns)``."""
    records = Records(
        values=[msgspec.json.encode(event) for event in events],
        keys=[event.card.encode() for event in events],
        offsets=np.arange(len(events)),
        timestamps=np.full(len(events), NO_TIMESTAMP),
    )
    decoded = RecordDecoder(schema).decode(records)
    assert not decoded.malformed
    return pipeline.engine.new_partition().process(decoded.columns).block

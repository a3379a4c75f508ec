"""Payments over hours, so that every window slides, and their rows as Headrace computes them."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders.task import Payment
from benchmarks.payments import pipeline, schema
from features.decode import RecordDecoder
from features.records import NO_TIMESTAMP, Records

START_MS = 1_700_000_000_000


def payments_over_days(events: int, users: int, days: float, seed: int = 1) -> list[Payment]:
    random = np.random.default_rng(seed)
    times = np.sort(START_MS + random.integers(0, int(days * 86_400_000), events))
    return [
        Payment(
            event_id=f"{i:016x}",
            user_id=f"user_{random.integers(users)}",
            ts=time,
            amount=round(float(random.lognormal(3, 1)), 2),
            balance=1.5,
            items=1,
            is_online=bool(random.integers(2)),
            merchant="m_1",
            currency="EUR",
            country="DE",
        )
        for i, time in enumerate(times.tolist())
    ]


def rows_of_headrace(events: list[Payment]) -> NDArray[np.float32]:
    records = Records(
        values=[msgspec.json.encode(event) for event in events],
        keys=[event.user_id.encode() for event in events],
        offsets=np.arange(len(events)),
        timestamps=np.full(len(events), NO_TIMESTAMP),
    )
    decoded = RecordDecoder(schema).decode(records)
    assert not decoded.malformed
    return pipeline.engine.new_partition().process(decoded.columns).block

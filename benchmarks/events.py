"""Payments made up from a seed: the same seed, the same bytes."""

import numpy as np
import pyarrow as pa

from pipelines.example import RECORDS

USERS = 20_000
SEED = 7

_START_MS = 1_700_000_000_000
_LONGEST_STEP_MS = 12
_MERCHANTS = 3_000
_CURRENCIES = np.array(["USD", "EUR", "GBP", "JPY", "INR"])
_COMPACT = (
    '{"event_id":"%016x","user_id":"%s","ts":%d,"amount":%s,"balance":%s,"items":%d,"is_online":%s,'
    '"merchant":"m_%05d","currency":"%s","country":"DE"}'
)
_SPACED = _COMPACT.replace(":", ": ").replace(",", ", ")


def payments(events: int, *, seed: int = SEED, users: int = USERS) -> pa.Table:
    """``events`` payments in event-time order, as the columns of `pipelines.example.RECORDS`.

    About 210 bytes of JSON each, ten fields; every third has spaces after its separators. Users and the times
    between payments (0 to 12 ms) are uniform, so a user comes back after two minutes or so.
    """
    random = np.random.default_rng(seed)
    times = _START_MS + np.cumsum(random.integers(0, _LONGEST_STEP_MS, events, endpoint=True))
    names = [f"user_{number:08d}" for number in range(users)]
    keys = [names[number] for number in random.integers(0, users, events).tolist()]
    fields = zip(
        random.integers(0, 2**64, events, dtype=np.uint64).tolist(),
        keys,
        times.tolist(),
        np.round(random.lognormal(3, 1, events), 2).tolist(),
        np.round(random.uniform(0, 9000, events), 4).tolist(),
        random.integers(1, 40, events).tolist(),
        np.where(random.random(events) < 0.5, "true", "false").tolist(),
        random.integers(0, _MERCHANTS, events).tolist(),
        _CURRENCIES[random.integers(0, len(_CURRENCIES), events)].tolist(),
        strict=True,
    )
    values = [((_COMPACT if i % 3 else _SPACED) % row).encode() for i, row in enumerate(fields)]
    return pa.table({"key": [key.encode() for key in keys], "value": values, "time": times}, schema=RECORDS)

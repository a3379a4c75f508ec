"""The card payments as the records that ``headrace publish`` sends: about 205 bytes of JSON, ten fields.

Payments online come through another gateway, whose JSON has spaces behind its separators.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.datasets.card_payments import CARDS, CATEGORIES, COUNTRIES, Events, days
from pipelines.datasets.draws import mixed
from pipelines.example import RECORDS

Texts = Any
"""``pa.Array`` of strings."""

_ROWS_AT_ONCE = 65_536
_CHARGEBACK = ('{"kind":"chargeback","payment_id":"', '","card":"', '","ts":', "}")
_PAYMENT = (
    '{"kind":"payment","payment_id":"', '","card":"', '","ts":', ',"amount":', ".", ',"merchant":"', '","category":"',
    '","device":"', '","country":"', '","online":false}',
)  # fmt: skip
_ONLINE = tuple(part.replace(":", ": ").replace(",", ", ").replace("false", "true") for part in _PAYMENT)

_TWO_DIGITS = pa.array([f"{number:02d}" for number in range(100)])
_CATEGORIES, _COUNTRIES = pa.array(CATEGORIES), pa.array(COUNTRIES)
_HEX = np.frombuffer(b"".join(b"%02x" % number for number in range(256)), np.uint8).reshape(256, 2)


def records(events: int, seed: int, cards: int = CARDS) -> Iterator[pa.Table]:
    """The first ``events`` of the stream as tables of `pipelines.example.RECORDS`, one after the other.

    Args:
        events: How many, chargebacks included.
        seed: Of all choices.
        cards: How many there are; a day has about four payments of each.
    """
    names = pa.array([f"card_{number:08d}" for number in range(cards)])
    left = events
    for day in days(seed, cards):
        for start in range(0, min(len(day), left), _ROWS_AT_ONCE):
            rows = day[start : start + min(_ROWS_AT_ONCE, left)]
            left -= len(rows)
            yield _table(rows, names, seed)
        if not left:
            return


def _table(events: Events, names: Texts, seed: int) -> pa.Table:
    values, places = [], []
    for parts, is_mine in (
        (_CHARGEBACK, events["is_chargeback"]),
        (_PAYMENT, ~events["is_chargeback"] & ~events["is_online"]),
        (_ONLINE, ~events["is_chargeback"] & events["is_online"]),
    ):
        places.append(np.flatnonzero(is_mine))
        values.append(_joined(parts, _texts(events[is_mine], names, seed)))
    order = np.argsort(np.concatenate(places))
    value = pa.concat_arrays(values).take(pa.array(order)).cast(pa.binary())
    key = names.take(pa.array(events["card"])).cast(pa.binary())
    return pa.Table.from_arrays([key, value, pa.array(events["time"])], schema=RECORDS)


def _texts(events: Events, names: Texts, seed: int) -> Iterator[Texts]:
    """What stands between the parts, as far as the parts ask for it."""
    yield _hexadecimal(mixed(events["payment"], seed), 16)
    yield names.take(pa.array(events["card"]))
    yield pa.array(events["time"]).cast(pa.string())
    yield pa.array(events["cents"] // 100).cast(pa.string())
    yield _TWO_DIGITS.take(pa.array(events["cents"] % 100))
    yield pc.binary_join_element_wise("m", pa.array(events["merchant"] + 10_000).cast(pa.string()), "_")
    yield _CATEGORIES.take(pa.array(events["category"]))
    yield pc.binary_join_element_wise(
        "dev", _hexadecimal(mixed(events["device"].astype(np.uint64), seed), 12), "_"
    )
    yield _COUNTRIES.take(pa.array(events["country"]))


def _joined(parts: Sequence[str], texts: Iterator[Texts]) -> Texts:
    between = [text for text, _ in zip(texts, parts[1:], strict=False)]
    pieces = [each for pair in zip(parts, between, strict=False) for each in pair]
    return pc.binary_join_element_wise(*pieces, parts[-1], "")


def _hexadecimal(numbers: NDArray[np.uint64], digits: int) -> Texts:
    """The last digits of each number."""
    parts = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)[:, -digits // 2 :]
    texts = _HEX[parts]
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * digits
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(texts))

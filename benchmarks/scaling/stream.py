"""Payments as columns, made in numpy slice by slice, so that millions of them cost the engine alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from features.columns import Bytes, Columns, Int64s
from pipelines.card_fraud import schema

SLICE = 1000
"""Events in a slice."""
START_MS = 1_704_067_200_000

_KIND = b"payment"
_TEXT_BYTES, _PADDING = 8, 16
_MERCHANTS = 1000
_HEX = np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), np.uint32)

Cards = Callable[[Int64s, np.random.Generator], Int64s]
"""Numbers of events to the numbers of their cards, with chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Events of one partition at a steady rate.

    Args:
        cards: Which card each event is of.
        gap_ms: From one event to the next.
    """

    cards: Cards
    gap_ms: float

    def slices(self, seed: int) -> Iterator[Columns]:
        """Without end; the same seed gives the same events."""
        random = np.random.default_rng(seed)
        for first in count(0, SLICE):
            numbers = np.arange(first, first + SLICE)
            times = START_MS + (numbers * self.gap_ms).astype(np.int64)
            yield _columns(self.cards(numbers, random), times, random)


def uniform(keys: int, interval_s: float) -> Stream:
    """Each of ``keys`` cards has an event every ``interval_s`` on average."""
    return Stream(
        cards=lambda numbers, random: random.integers(keys, size=numbers.size),
        gap_ms=1000 * interval_s / keys,
    )


def regular(keys: int, interval_s: float) -> Stream:
    """Each of ``keys`` cards has an event exactly every ``interval_s``."""
    return Stream(cards=lambda numbers, random: numbers % keys, gap_ms=1000 * interval_s / keys)  # noqa: ARG005 - no chance here


def growing(events_a_key: int, gap_ms: float) -> Stream:
    """Every ``events_a_key``-th event is of a new card, the others are of any card before."""

    def cards(numbers: Int64s, random: np.random.Generator) -> Int64s:
        newest = numbers // events_a_key
        return np.where(numbers % events_a_key == 0, newest, random.integers(newest + 1))

    return Stream(cards=cards, gap_ms=gap_ms)


def churning(alive: int, events_a_key: int, life_s: float) -> Stream:
    """Cards come, have about ``events_a_key`` events within ``life_s``, and never return; ``alive`` at a time."""
    return Stream(
        cards=lambda numbers, random: numbers // events_a_key + random.integers(alive, size=numbers.size),
        gap_ms=1000 * life_s / (alive * events_a_key),
    )


def _columns(cards: Int64s, times: Int64s, random: np.random.Generator) -> Columns:
    """A slice whose texts are the kind, then eight digits for each card and each merchant."""
    n = cards.size
    texts = _digits(np.concatenate([cards, random.integers(_MERCHANTS, size=n)]))
    head = np.frombuffer(_KIND.ljust(_TEXT_BYTES), np.uint8)
    refs = (_TEXT_BYTES * np.arange(1, 2 * n + 1) << 24) | _TEXT_BYTES
    words = np.zeros((len(schema.fields), n), np.int64)
    valid = np.zeros((len(schema.fields), n), np.uint8)
    given = {
        "kind": np.full(n, len(_KIND)),
        "card": refs[:n],
        "ts": times,
        "amount": (100 * random.random(n)).view(np.int64),
        "merchant": refs[n:],
        "online": random.integers(2, size=n),
    }
    for name, column in given.items():
        words[schema.place(name)] = column
        valid[schema.place(name)] = 1
    return Columns(
        schema=schema,
        buffer=np.concatenate([head, texts, np.zeros(_PADDING, np.uint8)]),
        words=words,
        valid=valid,
        times=times,
        positions=np.arange(n),
    )


def _digits(numbers: Int64s) -> Bytes:
    """Eight hexadecimal digits of each, one behind the other."""
    halves: Bytes = np.stack([_HEX[numbers >> 16], _HEX[numbers & 0xFFFF]], axis=1).view(np.uint8).reshape(-1)
    return halves

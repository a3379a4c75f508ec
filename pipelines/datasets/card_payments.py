"""Card payments made up from a seed, with rings of fraudsters and the chargebacks that come days later.

::

    kind        happens at                          about    says, beside payment_id and card
    payment     when a card is used                 99.3 %   amount merchant category device country online
    chargeback  1 hour to 4 days after a payment     0.7 %   nothing else: the payment was fraud

**Cards** have a home country, waking hours, a mix of categories, a level of spending and two devices of their own.
Some payments are followed by others within minutes: a round of shopping, a night of gaming.

**Rings** are a few at a time, for five days each. A ring attacks cards, often while their owners sleep: a few small
amounts to see whether a card works, then large ones, all from the ring's three devices at merchants that it likes.
Some are quick, some take hours. An amount or an hour by itself says little; what the card did just before says more.
Every payment of an attack is charged back, and no other: a payment without chargeback after 4 days was none.

**Order** is that of arrival, up to 7 s after the event time: one event in nine stands behind one of a later time.

**The same arguments, the same bytes**, on every machine (see `pipelines.datasets.draws`). A day is a function of seed,
cards and day, so that the first events of many are those of few; it is also what is in memory at once.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.clocks import DAY, HOUR, MINUTE
from pipelines.datasets.draws import Draws, Ints, log_normal, weighted

CARDS = 20_000
FIRST_DAY = 18_262
"""Of the stream, in days since the epoch: 2020-01-01."""

EVENT = np.dtype(
    [
        ("arrival", np.int64),  # ms UTC: where it stands in the stream
        ("time", np.int64),  # ms UTC
        ("payment", np.uint64),  # day and number in the day
        ("card", np.int32),
        ("is_chargeback", np.bool_),
        ("is_online", np.bool_),
        ("category", np.int8),
        ("country", np.int8),
        ("merchant", np.int32),
        ("device", np.uint32),  # whose (OWN, TERMINAL, RING) and number
        ("cents", np.int64),
    ]
)
Events = NDArray[np.void]

COUNTRIES = ("DE", "FR", "GB", "ES", "PL", "IN", "BR", "US")
_HOURS_AHEAD = np.array([1, 1, 0, 1, 1, 5, -3, -5])
_HOMES = weighted({0: 30, 1: 20, 2: 15, 3: 10, 4: 10, 5: 5, 6: 5, 7: 5})

CATEGORIES = (
    "groceries", "fuel", "restaurant", "coffee", "transport", "pharmacy",
    "clothing", "digital", "gift_cards", "electronics", "travel",
)  # fmt: skip
_MEDIAN_CENTS = np.array([2900, 5200, 2600, 430, 290, 1600, 5900, 790, 4000, 16_000, 24_000])
_ONLINE_PERMILLE = np.array([60, 0, 120, 0, 300, 100, 450, 1000, 700, 550, 800])
_COFFEE, _TRANSPORT, _DIGITAL, _GIFT_CARDS, _ELECTRONICS, _TRAVEL = 3, 4, 7, 8, 9, 10
_MERCHANTS = 250
"""Of each category."""

_PERSONAS = np.stack(
    [
        weighted(dict(enumerate(parts)))
        for parts in (
            (34, 6, 14, 12, 12, 5, 6, 6, 1, 2, 2),
            (20, 14, 20, 8, 2, 4, 8, 8, 4, 4, 8),
            (12, 2, 16, 14, 18, 2, 10, 20, 2, 3, 1),
            (10, 2, 8, 6, 6, 2, 4, 54, 4, 3, 1),
        )
    ]
)
_WAKING = np.stack(
    [  # by hour of the day: early, office, late, night
        np.repeat(np.arange(24), parts)
        for parts in (
            (0, 0, 0, 0, 1, 4, 8, 9, 8, 8, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0),
            (0, 0, 0, 0, 0, 1, 3, 7, 7, 4, 4, 7, 10, 8, 4, 4, 6, 10, 10, 7, 4, 2, 1, 1),
            (3, 2, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 7, 7, 6, 6, 6, 7, 8, 8, 7, 6, 6, 5),
            (9, 8, 7, 6, 4, 2, 1, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 7, 8),
        )
    ]
)

_PAYMENTS_A_DAY = 3
_WEEKDAYS = np.array([96, 97, 98, 101, 112, 110, 86])
_SPENDING = log_normal(1000, 0.5, 200, 6000)
_ACTIVITY = log_normal(4, 0.7, 1, 20)
_SPREAD = log_normal(1000, 0.75, 80, 15_000)
_FOLLOWING = weighted({0: 90, 1: 7, 2: 2, 3: 1})
_PLAYING = weighted({0: 84, 1: 8, 2: 4, 4: 3, 6: 1})
_DELAYS = log_normal(180, 1.1, 20, 20_000)

OWN, TERMINAL, RING = np.array([1, 2, 3], np.uint32) << np.uint32(28)
_RING_DAYS = 5
_ATTACKED_PERMILLE = 4
"""Cards that are attacked each day."""
_TEST_CENTS = log_normal(300, 0.8, 50, 2000)
_TAKEN_CENTS = log_normal(6000, 0.9, 700, 150_000)
_TAKEN_AT = np.array([_GIFT_CARDS, _ELECTRONICS, _ELECTRONICS, _TRAVEL])
_NOTICED = log_normal(14 * 60, 1.0, 60, 84 * 60) * MINUTE


class Population:
    """The cards and their habits.

    Args:
        seed: Of all choices.
        cards: How many.
    """

    def __init__(self, seed: int, cards: int) -> None:
        draws = Draws(seed, 0)
        self.seed, self.cards = seed, cards
        self.home = draws.pick(_HOMES, cards)
        self.persona = draws.below(len(_PERSONAS), cards)
        self.waking = np.where(self.persona == 3, 3, draws.below(3, cards))
        self.spending = draws.pick(_SPENDING, cards)
        self.used = np.repeat(np.arange(cards), draws.pick(_ACTIVITY, cards))

    def day(self, day: int) -> Events:
        """What begins on a day (0 is the first) and the chargebacks that follow from it, in no order."""
        draws = Draws(self.seed, 1, day)
        single = self._single(draws, day)
        attacks, charged_back = self._attacks(draws, day)
        every = np.concatenate([single, self._following(draws, single), attacks])
        every["payment"] = np.arange(len(every), dtype=np.uint64) + (np.uint64(day) << np.uint64(32))
        backs = every[len(every) - len(attacks) :].copy()
        backs["time"], backs["is_chargeback"] = charged_back, True
        stream = np.concatenate([every, backs])
        stream["arrival"] = stream["time"] + draws.pick(_DELAYS, len(stream))
        return stream

    def _single(self, draws: Draws, day: int) -> Events:
        """Each by itself, at an hour at which its owner is awake."""
        n = self.cards * _PAYMENTS_A_DAY * int(_WEEKDAYS[(FIRST_DAY + day + 3) % 7]) // 100
        found = np.zeros(n, EVENT)
        card = draws.pick(self.used, n)
        hours = _WAKING[self.waking[card], draws.below(_WAKING.shape[1], n)]
        clock = hours * HOUR + draws.below(HOUR, n)
        found["card"] = card
        found["time"] = (FIRST_DAY + day) * DAY + (clock - _HOURS_AHEAD[self.home[card]] * HOUR) % DAY
        self._buy(draws, found, _PERSONAS[self.persona[card], draws.below(_PERSONAS.shape[1], n)])
        return found

    def _following(self, draws: Draws, first: Events) -> Events:
        """What follows within minutes on some payments."""
        is_play = first["category"] == _DIGITAL
        n = len(first)
        counts = np.where(is_play, draws.pick(_PLAYING, n), draws.pick(_FOLLOWING, n))
        gaps = draws.between(20_000, 12 * MINUTE, n) // np.where(is_play, 4, 1)
        row, step = _steps(counts)
        found = first[row]
        found["time"] += gaps[row] * (step + 1)
        persona = self.persona[found["card"]]
        other = _PERSONAS[persona, draws.below(_PERSONAS.shape[1], len(found))]
        self._buy(draws, found, np.where(is_play[row], _DIGITAL, other))
        return found

    def _buy(self, draws: Draws, found: Events, category: Ints) -> None:
        """Fill in what is bought where; popular merchants have low numbers."""
        n, card = len(found), found["card"]
        popular = draws.below(_MERCHANTS, n)
        cents = _MEDIAN_CENTS[category] * self.spending[card] // 1000 * draws.pick(_SPREAD, n) // 1000
        found["category"], found["cents"] = category, np.maximum(cents, 20)
        found["merchant"] = category * _MERCHANTS + popular * popular // _MERCHANTS
        found["is_online"] = draws.chance(_ONLINE_PERMILLE[category], n)
        found["country"] = np.where(draws.chance(40, n), draws.below(len(COUNTRIES), n), self.home[card])
        own = OWN + (card * 2 + draws.chance(300, n)).astype(np.uint32)
        terminal = TERMINAL + (found["merchant"] * 4 + draws.below(4, n)).astype(np.uint32)
        found["device"] = np.where(found["is_online"], own, terminal)

    def _attacks(self, draws: Draws, day: int) -> tuple[Events, Ints]:
        """Payments of the attacks that begin on a day, and when each is charged back."""
        attacks = max(1, self.cards * _ATTACKED_PERMILLE // 1000)
        rings = _Rings(self.seed, day // _RING_DAYS, max(2, self.cards // 2500))
        ring, card = draws.below(rings.count, attacks), draws.below(self.cards, attacks)
        asleep = (draws.between(0, 5 * HOUR, attacks) - _HOURS_AHEAD[self.home[card]] * HOUR) % DAY
        begin = np.where(draws.chance(500, attacks), asleep, draws.below(DAY, attacks))
        tests = draws.between(1, 3, attacks)
        row, step = _steps(tests + draws.between(2, 7, attacks))
        n, of, is_test = len(row), ring[row], step < tests[row]
        gaps = np.where(is_test, draws.between(15_000, 2 * MINUTE, n), draws.between(MINUTE, 20 * MINUTE, n))
        passed = np.cumsum(gaps * rings.slowness[of])
        passed -= passed[np.flatnonzero(step == 0)][row]
        found = np.zeros(n, EVENT)
        found["card"], found["is_online"] = card[row], True
        found["time"] = (FIRST_DAY + day) * DAY + begin[row] + passed
        found["country"], found["device"] = rings.country[of], RING + rings.device(of, draws)
        found["category"] = np.where(is_test, _DIGITAL, rings.taken_at[of])
        liked = np.where(is_test, rings.tested_at[of], rings.liked[of] + draws.below(3, n))
        found["merchant"] = found["category"].astype(np.int32) * _MERCHANTS + liked
        found["cents"] = np.where(is_test, draws.pick(_TEST_CENTS, n), draws.pick(_TAKEN_CENTS, n))
        ends = np.append(np.flatnonzero(step == 0)[1:] - 1, n - 1)
        noticed = found["time"][ends] + draws.pick(_NOTICED, attacks)
        return found, noticed[row] + draws.below(10 * MINUTE, n)


class _Rings:
    """The rings of five days: arrays with an entry for each."""

    def __init__(self, seed: int, number: int, count: int) -> None:
        draws = Draws(seed, 2, number)
        self.count = count
        self._first_device = 3 * (number * count + np.arange(count))
        self.slowness = np.where(draws.chance(200, count), 6, 1)
        self.country = draws.below(len(COUNTRIES), count)
        self.taken_at = draws.pick(_TAKEN_AT, count)
        self.tested_at = draws.below(_MERCHANTS, count)
        self.liked = draws.below(_MERCHANTS - 3, count)

    def device(self, ring: Ints, draws: Draws) -> NDArray[np.uint32]:
        return (self._first_device[ring] + draws.below(3, len(ring))).astype(np.uint32)


def days(seed: int, cards: int = CARDS) -> Iterator[Events]:
    """The stream without end, in order of arrival: what arrives on each day."""
    population, waiting = Population(seed, cards), np.empty(0, EVENT)
    day = 0
    while True:
        waiting = np.concatenate([waiting, population.day(day)])
        day += 1
        arrivals = waiting["arrival"].copy()
        order = np.argsort(arrivals, kind="stable")
        due = np.searchsorted(arrivals, (FIRST_DAY + day) * DAY, sorter=order)
        yield waiting[order[:due]]
        waiting = waiting[order[due:]]


def _steps(counts: Ints) -> tuple[Ints, Ints]:
    """For each of ``counts[i]`` steps of row ``i``, the row and the number of the step in it."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]

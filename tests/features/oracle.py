"""Brute force: what a row has to be, in plain Python over lists, from the documentation alone."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Event = Mapping[str, Any]
Predicate = Callable[[Event], Any]


@dataclass
class Key:
    """Every folded event of one entity, in log order."""

    newest: int | None = None
    events: list[tuple[int, Event]] = field(default_factory=list)

    def window(self, now: int, length: int, tile: int) -> list[tuple[int, Event]]:
        """Events in ``[⌊(now − length) / tile⌋ · tile, now]``, tiles oldest to newest, log order within."""
        start = math.floor((now - length) / tile) * tile
        return sorted((e for e in self.events if start <= e[0] <= now), key=lambda e: e[0] // tile)


Reader = Callable[[Key, int], float]


@dataclass
class Oracle:
    """The rows of one partition.

    Args:
        key: Name of the entity's field.
        readers: For each column how to read it from a key as of a time.
    """

    key: str
    readers: Sequence[Reader]
    max_late: int
    ttl: int | None = None
    include_current: bool = False
    of_nothing: float = math.nan
    watermark: int | None = None
    keys: dict[Any, Key] = field(default_factory=dict)

    def row(self, event: Event) -> list[float]:
        """Read and fold the next event of the log; its time is in ``ts``, ms."""
        time = event["ts"]
        self.watermark = time if self.watermark is None else max(self.watermark, time)
        if event[self.key] is None:
            return [self.of_nothing] * len(self.readers)
        key = self.keys.setdefault(event[self.key], Key())
        if self._has_expired(key, time):
            key = self.keys[event[self.key]] = Key()
        now = time if key.newest is None else max(time, key.newest)
        is_late = time < self.watermark - self.max_late
        if self.include_current and not is_late:
            key.events.append((time, event))
        row = [read(key, now) for read in self.readers]
        if not is_late:
            key.newest = now
            if not self.include_current:
                key.events.append((time, event))
        return row

    def _has_expired(self, key: Key, time: int) -> bool:
        if self.ttl is None or key.newest is None or self.watermark is None:
            return False
        return time - key.newest > self.ttl or self.watermark - key.newest > self.ttl + self.max_late


def is_true(event: Event, where: Predicate | None) -> bool:
    """A predicate that is unknown is not true."""
    return where is None or where(event) is True


def count(length: int, tile: int, where: Predicate | None = None) -> Reader:
    return lambda key, now: sum(is_true(e, where) for _, e in key.window(now, length, tile))


def values(key: Key, now: int, window: tuple[int, int], of: str, where: Predicate | None) -> list[float]:
    return [e[of] for _, e in key.window(now, *window) if is_true(e, where) and e[of] is not None]


def sum_(of: str, length: int, tile: int, where: Predicate | None = None) -> Reader:
    return lambda key, now: math.fsum(values(key, now, (length, tile), of, where))


def mean(of: str, length: int, tile: int, where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:
        taking_part = values(key, now, (length, tile), of, where)
        return math.fsum(taking_part) / len(taking_part) if taking_part else math.nan

    return read


def max_(of: str, length: int, tile: int, where: Predicate | None = None) -> Reader:
    return lambda key, now: max(values(key, now, (length, tile), of, where), default=math.nan)


def min_(of: str, length: int, tile: int, where: Predicate | None = None) -> Reader:
    return lambda key, now: min(values(key, now, (length, tile), of, where), default=math.nan)


def std(of: str, length: int, tile: int, where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:
        taking_part = values(key, now, (length, tile), of, where)
        return float(statistics.pstdev(map(Fraction, taking_part))) if taking_part else math.nan

    return read


def ratio(of: Predicate, length: int, tile: int, where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:
        known = [of(e) for _, e in key.window(now, length, tile) if is_true(e, where) and of(e) is not None]
        return sum(known) / len(known) if known else math.nan

    return read


def newest(key: Key, takes_part: Callable[[Event], bool]) -> tuple[int, Event] | None:
    """By (event time, log order)."""
    taking_part = [(time, order, e) for order, (time, e) in enumerate(key.events) if takes_part(e)]
    if not taking_part:
        return None
    time, _, event = max(taking_part, key=lambda item: item[:2])
    return time, event


def running_count(where: Predicate | None = None) -> Reader:
    return lambda key, now: sum(is_true(e, where) for _, e in key.events)  # noqa: ARG005


def first(of: str, where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:  # noqa: ARG001
        taking_part = [e for e in key.events if is_true(e[1], where) and e[1][of] is not None]
        return min(taking_part, key=lambda e: e[0])[1][of] if taking_part else math.nan

    return read


def last(of: str, where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:  # noqa: ARG001
        found = newest(key, lambda e: is_true(e, where) and e[of] is not None)
        return math.nan if found is None else found[1][of]

    return read


def seconds_since_last(where: Predicate | None = None) -> Reader:
    def read(key: Key, now: int) -> float:
        found = newest(key, lambda e: is_true(e, where))
        return math.nan if found is None else (now - found[0]) / 1000

    return read

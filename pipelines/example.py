"""Example events of a pipeline: recorded ones are a table; made-up ones are as many as are asked for."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from features.errors import Misdeclared

RECORDS = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("time", pa.int64())])
"""What is published: Kafka key, value, and event time in ms for pacing; in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp:
    """Events that are made up, the same for the same seed; called without arguments, all of them in one table.

    Args:
        make: ``make(events, seed)`` gives the first so many of an endless stream, as tables of `RECORDS` one after
            the other, so that they never stand in memory all at once.
        events: How many, unless ``headrace publish --events`` says so.
        seed: Of all choices, unless ``headrace publish --seed`` says so.
    """

    make: Callable[[int, int], Iterable[pa.Table]]
    events: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.events < 1 or self.seed < 0:
            raise Misdeclared(
                f"MadeUp events is {self.events} and seed {self.seed}; at least 1 event, and a seed from 0 on"
            )

    def __call__(self) -> pa.Table:
        """As many as are declared."""
        return pa.concat_tables(self.make(self.events, self.seed))

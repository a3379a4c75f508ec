"""Partitions and what is known of them when they are assigned."""

from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Commit(NamedTuple):
    """The offset a group goes on from in a partition, and the note stored with it."""

    partition: Partition
    offset: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartition:
    """A partition as the group coordinator handed it over.

    Attributes:
        partition: Which one.
        committed: The group's committed offset; None when there is none.
        metadata: The string committed with it; empty when there is none.
        low: The oldest offset the log still holds.
        high: The offset after the newest stable record.
    """

    partition: Partition
    committed: int | None
    metadata: str
    low: int
    high: int

    @property
    def start(self) -> int:
        """The offset of the first record that will be delivered, or of one before it that holds no record."""
        return self.low if self.committed is None else max(self.committed, self.low)

    @property
    def lost(self) -> int:
        """How many offsets retention removed between the committed one and the oldest still held."""
        return 0 if self.committed is None else max(0, self.low - self.committed)

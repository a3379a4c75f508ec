"""What a worker holds of a partition."""

from dataclasses import dataclass

from features.engine import PartitionState
from workers.checkpoints.writing import Writing

Identity = tuple[str, int]
"""A topic's UUID, as hexadecimal, and its number of partitions."""


@dataclass(slots=True, eq=False, kw_only=True)
class Held:
    """The state of an assigned partition, from its assignment to its release.

    Args:
        state: The fold of the records in ``[origin, next_offset)``.
        origin: First offset that it is the fold of.
        next_offset: First offset that it is not the fold of yet.
        identity: Of the topic, if the brokers told.
        writing: Its checkpoints; ``None`` if there are to be none.
        saved_at: Offset of the last checkpoint written here, -1 for none.
        saved_since: When that was, or the partition came, s on the clock.
    """

    state: PartitionState
    origin: int
    next_offset: int
    identity: Identity | None
    writing: Writing | None
    saved_at: int = -1
    saved_since: float

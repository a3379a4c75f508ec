"""What a slice leaves behind for one topic, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from features.errors import Misdeclared


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBatch:
    """Records for one topic, in order; made durable together with the offsets of the slice they come from.

    The columns are sequences of equal length. A list is the fastest today; a column that keeps one buffer and
    offsets, and cuts out ``bytes`` only when asked for an item, is a sequence as well, and a writer that knows it
    may take the buffer itself.

    Attributes:
        topic: Where to.
        values: The records' values; None is a tombstone.
        keys: Their keys; None when no record has one.
        headers: Their headers; None when no record has any.
        partition: The partition of all of them; -1 places each by the murmur2 hash of its key, as Java does.
    """

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[tuple[str, bytes]] | None] | None = None
    partition: int = -1

    def __post_init__(self) -> None:
        for name, column in (("keys", self.keys), ("headers", self.headers)):
            if column is not None and len(column) != len(self.values):
                raise Misdeclared(
                    f"OutputBatch for {self.topic}: {len(self.values)} values but {len(column)} {name}; "
                    "give each column one item a record"
                )

    def __len__(self) -> int:
        return len(self.values)

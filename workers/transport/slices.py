"""Slices: raw records of one partition in offset order, the only thing that moves through the ingest path."""

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from features.byte_column import ByteColumn
from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Partition
from workers.transport.progress import Span

# What the Python objects of one record weigh besides its value; the limits on bytes count it.
_RECORD_OVERHEAD = 300


class Records:
    """Consecutive records of one partition as columns; each is made when it is first asked for.

    Several agents may read one object: nothing in it may be changed.

    Args:
        partition: Where they come from.
        messages: What the client returned, in offset order, at least one.
        offsets: Their offsets, ``(records,) int64``.
    """

    def __init__(self, partition: Partition, messages: Sequence[Message], offsets: NDArray[np.int64]) -> None:
        self.partition = partition
        self.offsets = offsets
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return int(self.offsets[-1]) + 1

    @cached_property
    def size(self) -> int:
        """About how many bytes of memory they take."""
        return sum(map(len, self._messages)) + _RECORD_OVERHEAD * len(self._messages)

    @cached_property
    def values(self) -> list[bytes | None]:
        """The values; None for a tombstone."""
        return list(map(Message.value, self._messages))

    @cached_property
    def keys(self) -> ByteColumn:
        """The keys."""
        return ByteColumn.of(list(map(Message.key, self._messages)))

    @cached_property
    def headers(self) -> list[list[tuple[str, bytes]] | None]:
        """The headers; None for a record without."""
        return list(map(Message.headers, self._messages))

    @cached_property
    def timestamps(self) -> NDArray[np.int64]:
        """Kafka's timestamps, ``(records,) int64``, milliseconds since the epoch; -1 where there is none."""
        stamps = map(itemgetter(1), map(Message.timestamp, self._messages))
        return np.fromiter(stamps, np.int64, len(self._messages))


class Slice:
    """One agent's view of some records, and the place to say that it has done with them.

    Attributes:
        records: The records as columns; with several agents on a topic all of them see this one object.
    """

    def __init__(
        self, records: Records, span: Span, finish: Callable[[Span, Sequence[OutputBatch]], None]
    ) -> None:
        self.records = records
        self._span = span
        self._finish = finish
        self._is_done = False

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Slice {self.partition} {self.first_offset}..{self.next_offset}>"

    @property
    def partition(self) -> Partition:
        """Where the records come from."""
        return self.records.partition

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return int(self.records.offsets[0])

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.records.next_offset

    @property
    def offsets(self) -> NDArray[np.int64]:
        """See :class:`Records`."""
        return self.records.offsets

    @property
    def timestamps(self) -> NDArray[np.int64]:
        """See :class:`Records`."""
        return self.records.timestamps

    @property
    def keys(self) -> ByteColumn:
        """See :class:`Records`."""
        return self.records.keys

    @property
    def values(self) -> list[bytes | None]:
        """See :class:`Records`."""
        return self.records.values

    @property
    def headers(self) -> list[list[tuple[str, bytes]] | None]:
        """See :class:`Records`."""
        return self.records.headers

    @property
    def is_dropped(self) -> bool:
        """True once the partition has left: nobody waits for this slice any more, its state is gone."""
        return self._span.is_dropped

    def done(self, outputs: Sequence[OutputBatch] = ()) -> None:
        """This agent needs nothing more of the slice; call it once, from any thread.

        The slice is done when every agent of its topic has said so. Its outputs are then made durable, and only
        after that, or in the same transaction, do the offsets advance. Of a dropped slice nothing is kept.

        Raises:
            RuntimeError: It was called before.
        """
        if self._is_done:
            raise RuntimeError(f"{self!r} was done before: call done() once a slice")
        self._is_done = True
        self._finish(self._span, outputs)

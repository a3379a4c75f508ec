"""State comes and goes with partitions: recovered before a partition's first slice, dropped when it leaves.

A partition's state at offset ``o`` is the fold of its records in ``[origin, o)``; the origin goes along with every
commit as its metadata.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from features.columns import Columns
from features.errors import Unavailable
from features.rows import Rows
from workers.checkpoints.checkpointer import Checkpointer
from workers.checkpoints.held import Held
from workers.recovery import Recovery
from workers.transport.partitions import AssignedPartition, Partition

_log = logging.getLogger(__name__)

_FAREWELL = 0.5
"""Seconds that the last checkpoints of leaving partitions may take; the others wait for them."""


class StateKeeper:
    """The state of every assigned partition; the transport's state hooks.

    Args:
        recovery: Makes it.
        interval: Between two checkpoints of a partition.
        clock: Seconds, monotonic.
    """

    def __init__(self, recovery: Recovery, interval: timedelta, clock: Callable[[], float]) -> None:
        self.recovery = recovery
        self._held: dict[Partition, Held] = {}
        self.checkpointer = Checkpointer(self._held, interval, clock)

    def process(self, partition: Partition, columns: Columns, next_offset: int) -> Rows:
        """Read and fold a slice of an assigned partition.

        Args:
            partition: Which one.
            columns: The slice's events.
            next_offset: The offset after its last record.
        """
        held = self._held[partition]
        rows = held.state.process(columns)
        held.next_offset = next_offset
        return rows

    @property
    def keys(self) -> int:
        """Entities held."""
        return sum(held.state.keys for held in list(self._held.values()))

    @property
    def size(self) -> int:
        """Bytes of state in use."""
        return sum(held.state.size for held in list(self._held.values()))

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        """Recover the partitions' states as of their committed offsets."""
        stop = threading.Event()
        try:
            held = await asyncio.to_thread(self.recovery.run, assigned, stop)
        except asyncio.CancelledError:
            stop.set()
            raise
        self._held |= held
        return {partition: self.recovery.note(each) for partition, each in held.items()}

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """Write a last checkpoint of partitions that leave, if it is had quickly, and drop their states."""
        try:
            async with asyncio.timeout(_FAREWELL):
                for partition in partitions:
                    if (held := self._held.get(partition)) is not None:
                        await self.checkpointer.write(partition, held, hurry=True)
        except (TimeoutError, Unavailable) as error:
            _log.info("no last checkpoint of partitions that leave: %s", str(error) or "it takes too long")
        await self.on_lost(partitions)

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the states of partitions that have left."""
        for partition in partitions:
            self._held.pop(partition, None)

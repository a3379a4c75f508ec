"""Checkpoints while events flow: saved on the event loop a few keys at a time, written in a thread."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from features.errors import Unavailable
from features.saving import KEYS_A_STEP
from workers.checkpoints.held import Held
from workers.transport.partitions import Partition

_log = logging.getLogger(__name__)

_TOLERATED = 10
"""Intervals without a checkpoint after which the process ends."""


@dataclass(slots=True)
class CheckpointStats:
    """Counters since the start.

    Args:
        written: Checkpoints.
        failed: Attempts that came to nothing.
        size: Bytes of files written.
        seconds: That the last one took.
    """

    written: int = 0
    failed: int = 0
    size: int = 0
    seconds: float = 0.0


class Checkpointer:
    """Writes and prunes the checkpoints of the partitions that are held.

    Args:
        held: The partitions.
        interval: Between two checkpoints of one.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, held: Mapping[Partition, Held], interval: timedelta, clock: Callable[[], float]
    ) -> None:
        self._held, self._interval, self._clock = held, interval.total_seconds(), clock
        self.stats = CheckpointStats()

    async def run(self, committed: Callable[[], Mapping[Partition, int]]) -> None:
        """Write checkpoints until cancelled.

        Args:
            committed: The partitions' committed offsets.

        Raises:
            Unavailable: A partition had none for `_TOLERATED` intervals.
        """
        while True:
            began = self._clock()
            for partition, each in list(self._held.items()):
                await self._try(partition, each, committed)
            await asyncio.sleep(max(0.0, began + self._interval - self._clock()))

    async def write(self, partition: Partition, each: Held, *, hurry: bool = False) -> bool:
        """Write a checkpoint of the state as it is now, unless there is one; whether there is one now.

        Args:
            partition: Which one.
            each: What is held of it.
            hurry: Go on without letting events be worked on in between.

        Raises:
            Unavailable: The store doesn't take it.
        """
        writing, began = each.writing, self._clock()
        if writing is None or each.saved_at == each.next_offset:
            return writing is not None
        everything, next_offset = writing.wants_everything, each.next_offset
        saving = each.state.begin_saving(everything=everything)
        writer = writing.begin(saving.watermark, next_offset, everything=everything)
        is_whole = False
        try:
            while not saving.is_done:
                stepped = self._clock()
                saving.step(KEYS_A_STEP)
                took = self._clock() - stepped
                if parts := saving.take():
                    await asyncio.to_thread(writer.write, parts)
                elif not hurry:
                    await asyncio.sleep(took)  # half of the time is the events'
                if self._held.get(partition) is not each:
                    return False
            await asyncio.to_thread(writer.close, saving.take())
            is_whole = True
        finally:
            if not is_whole:
                saving.abandon()
                writing.begin_anew()
        each.saved_at, each.saved_since = next_offset, self._clock()
        self.stats.written += 1
        self.stats.size += writer.size
        self.stats.seconds = self._clock() - began
        _log.info(
            "%s: checkpoint at %d, %s, %d keys, %.1f MB, %.2f s",
            partition, next_offset, "whole" if everything else "changes", saving.keys, writer.size / 1e6, self.stats.seconds,
        )  # fmt: skip
        return True

    async def _try(
        self, partition: Partition, each: Held, committed: Callable[[], Mapping[Partition, int]]
    ) -> None:
        try:
            if await self.write(partition, each) and each.writing is not None:
                offset = committed().get(partition, 0)
                await asyncio.to_thread(each.writing.prune, offset)
        except Unavailable as error:
            self.stats.failed += 1
            age = self._clock() - each.saved_since
            if age > _TOLERATED * self._interval:
                raise Unavailable(f"{partition}: no checkpoint for {age:.0f} s: {error}") from error
            _log.warning("%s: no checkpoint: %s; next try in %.0f s", partition, error, self._interval)

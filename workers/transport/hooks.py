"""The seam to keyed state: what happens to it when partitions come and go."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from workers.transport.partitions import AssignedPartition, Partition


class StateHooks(Protocol):
    """Coroutines that run on the event loop; for one partition they never overlap.

    A partition's slices are delivered only after ``on_assign`` returned. When a partition leaves before that, the
    running ``on_assign`` is cancelled and awaited; those of its partitions that stay get a new ``on_assign``.
    """

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        """Make the state of these partitions ready as of their committed offsets.

        Returns:
            Per partition the string that goes along with each of its commits (at most 4,096 bytes; the broker's
            ``offset.metadata.max.bytes``); a partition not named gets the empty one.
        """
        ...

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """Let go of these partitions, after their drain and last commit."""
        ...

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Drop the state of these partitions: another worker may own them already, no commit was possible."""
        ...


class Stateless:
    """The hooks of a pipeline that keeps no state."""

    async def on_assign(self, assigned: Sequence[AssignedPartition]) -> Mapping[Partition, str]:
        """Nothing to make ready, no note."""
        del assigned
        return {}

    async def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """Nothing to let go."""

    async def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Nothing to drop."""

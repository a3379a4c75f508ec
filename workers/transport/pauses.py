"""Which partitions are paused, and why; a partition flows again when no reason is left."""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from workers.transport.partitions import Partition


class Reason(StrEnum):
    """Why a partition is paused."""

    FULL = "its agents hold too many of its slices"
    STALL = "agents or commits hold too much altogether"


class Pauses:
    """The reasons per partition; pure, the poller tells the client what changes.

    The client must be told of changes only: a resume of what was not paused makes librdkafka read again what it
    has read (its issue 4637), and so does a pause before the first record (2190).
    """

    def __init__(self) -> None:
        self._reasons: dict[Partition, set[Reason]] = defaultdict(set)

    def __contains__(self, partition: object) -> bool:
        return bool(self._reasons.get(partition))  # type: ignore[call-overload]  # anything may be asked for

    def because(self, reason: Reason) -> list[Partition]:
        """The partitions paused for this reason, among others perhaps."""
        return [partition for partition, reasons in self._reasons.items() if reason in reasons]

    def add(self, partitions: Iterable[Partition], reason: Reason) -> list[Partition]:
        """Note a reason; returns the partitions that have to be paused now."""
        added = []
        for partition in partitions:
            if not self._reasons[partition]:
                added.append(partition)
            self._reasons[partition].add(reason)
        return added

    def remove(self, partitions: Iterable[Partition], reason: Reason) -> list[Partition]:
        """Take a reason back; returns the partitions that have to be resumed now."""
        removed = []
        for partition in partitions:
            reasons = self._reasons.get(partition)
            if reasons and reason in reasons:
                reasons.discard(reason)
                if not reasons:
                    removed.append(partition)
        return removed

    def forget(self, partitions: Iterable[Partition]) -> list[Partition]:
        """These partitions leave; returns those of them that are paused."""
        return [partition for partition in partitions if self._reasons.pop(partition, None)]

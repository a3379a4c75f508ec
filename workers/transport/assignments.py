"""Which partitions this worker owns: the rebalance callbacks, and the state hooks they drive.

librdkafka calls the three callbacks inside ``poll``, ``consume`` and ``close``, on the poller's thread. A revoke
is over for the group when its callback returns, so the callback drains: nothing of the leaving partitions may be
committed afterwards.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from features.errors import Unavailable
from workers.transport.commits import Commits
from workers.transport.faults import is_transient
from workers.transport.hooks import StateHooks
from workers.transport.mailbox import Mailbox
from workers.transport.partitions import AssignedPartition, Partition
from workers.transport.progress import Span
from workers.transport.retries import Attempts
from workers.transport.running_hook import RunningHook
from workers.transport.shared import Shared
from workers.transport.slices import Records

_log = logging.getLogger(__name__)

_LOOK_UP_SECONDS = 10.0

Delivered = list[tuple[Records, Span]]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Loading:
    """One run of ``on_assign``."""

    assigned: tuple[AssignedPartition, ...]
    hook: RunningHook[Mapping[Partition, str]]


class Assignments:
    """Owned partitions, from the group's assignment to their release.

    Args:
        shared: Where tracks begin and end.
        commits: What is done about offsets.
        hooks: The keyed state.
        loop: Where the hooks run.
        mailbox: Queued calls, and waiting that goes on with them.
        deliver: Hands records to the agents.

    Attributes:
        revoked_now: Partitions that left since the poller cleared this set.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- the seams of a callback
        self,
        shared: Shared,
        commits: Commits,
        hooks: StateHooks,
        loop: asyncio.AbstractEventLoop,
        mailbox: Mailbox,
        deliver: Callable[[Delivered], None],
    ) -> None:
        self._settings = shared.settings
        self._ledger = shared.ledger
        self._stats = shared.stats
        self._clock = shared.clock
        self._commits = commits
        self._hooks = hooks
        self._loop = loop
        self._mailbox = mailbox
        self._deliver = deliver
        self._loadings: list[Loading] = []
        self._parked: dict[Partition, Delivered] = {}
        self.revoked_now: set[Partition] = set()

    def dispatch(self, delivered: Delivered) -> None:
        """Records were read: to the agents, or to wait until their partition's state is ready."""
        ready: Delivered = []
        for records, span in delivered:
            self._parked.get(records.partition, ready).append((records, span))
        self._deliver(ready)

    # -- called by librdkafka ---------------------------------------------------------------------------------

    def on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        """Partitions came: start each where the group stands, begin to make its state ready."""
        self._stats.rebalances += 1
        assigned = self._look_up(consumer, parts) if parts else ()
        # Explicit offsets; no pause: one before the first record would lose the offset (librdkafka 2190).
        starts = [TopicPartition(*each.partition, each.start) for each in assigned]
        consumer.incremental_assign(starts)
        self._commits.rebalanced()
        self._ledger.assign((each.partition, each.start) for each in assigned)
        self._parked |= {each.partition: [] for each in assigned}
        self._load(assigned)

    def on_revoke(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        """Partitions go in good order: drain, commit, let go."""
        self._stats.rebalances += 1
        leaving = _partitions(parts)
        self._commits.rebalanced()
        stay = self._cancel_loading(leaving)
        self._drain(leaving)
        self._commits.finish(leaving)
        self._release(leaving)
        self._finish_hook("on_revoke", self._hooks.on_revoke(leaving))
        consumer.incremental_unassign(parts)
        self._load(stay)

    def on_lost(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        """Partitions are gone already: let go without any commit."""
        self._stats.rebalances += 1
        leaving = _partitions(parts)
        stay = self._cancel_loading(leaving)
        self._release(leaving)
        self._finish_hook("on_lost", self._hooks.on_lost(leaving))
        consumer.incremental_unassign(parts)
        self._load(stay)

    # -- coming -----------------------------------------------------------------------------------------------

    def _look_up(self, consumer: Consumer, parts: list[TopicPartition]) -> tuple[AssignedPartition, ...]:
        attempts = Attempts(self._settings.retries, "looking up offsets")
        while True:
            try:
                # read_committed: waits for offsets in transactions of the former owner (KIP-447).
                committed = consumer.committed(parts, _LOOK_UP_SECONDS)
                return tuple(self._assigned(consumer, each) for each in committed)
            except KafkaException as error:
                if not is_transient(error.args[0]):
                    raise
                if self._mailbox.wait(lambda: False, attempts.failed(error, self._clock())):
                    raise Unavailable("looking up offsets: given up, the process is ending") from error

    def _assigned(self, consumer: Consumer, committed: TopicPartition) -> AssignedPartition:
        if committed.error is not None:
            raise KafkaException(committed.error)
        low, high = consumer.get_watermark_offsets(committed, _LOOK_UP_SECONDS)
        assigned = AssignedPartition(
            partition=Partition(committed.topic, committed.partition),
            committed=committed.offset if committed.offset >= 0 else None,
            metadata=committed.metadata or "",
            low=low,
            high=high,
        )
        if assigned.lost:
            self._stats.truncated += assigned.lost
            _log.warning(
                "%s: retention removed %d offsets this group had not read; starting at %d instead of %d",
                assigned.partition, assigned.lost, low, assigned.committed,
            )  # fmt: skip
        return assigned

    def _load(self, assigned: Sequence[AssignedPartition]) -> None:
        if not assigned:
            return
        hook = RunningHook(
            "on_assign",
            self._hooks.on_assign(assigned),
            self._loop,
            then=lambda: self._mailbox.post(lambda: self._loaded(loading)),
        )
        loading = Loading(tuple(assigned), hook)
        self._loadings.append(loading)
        hook.start()

    def _loaded(self, loading: Loading) -> None:
        if loading not in self._loadings:  # cancelled meanwhile
            return
        self._loadings.remove(loading)
        notes = loading.hook.result()
        for each in loading.assigned:
            self._ledger.annotate(each.partition, notes.get(each.partition, ""))
            self._deliver(self._parked.pop(each.partition))

    # -- going ------------------------------------------------------------------------------------------------

    def _cancel_loading(self, leaving: list[Partition]) -> list[AssignedPartition]:
        """End the runs of on_assign that load a leaving partition; returns what else they were loading."""
        stay: list[AssignedPartition] = []
        for loading in list(self._loadings):
            staying = [each for each in loading.assigned if each.partition not in leaving]
            if len(staying) < len(loading.assigned):
                self._loadings.remove(loading)
                loading.hook.cancel()
                loading.hook.wait(self._settings.timeouts.hook.total_seconds())
                stay += staying
        return stay

    def _drain(self, leaving: list[Partition]) -> None:
        seen = [
            partition for partition in leaving if partition not in self._parked
        ]  # the agents saw only these
        self._ledger.hurry(1)
        try:
            drained = self._mailbox.wait(
                lambda: self._ledger.is_settled(seen), self._settings.timeouts.drain.total_seconds()
            )
        finally:
            self._ledger.hurry(-1)
        if not drained:
            self._stats.undrained += 1
            _log.warning("slices of %d partitions were not done within the drain's time", len(seen))

    def _release(self, leaving: list[Partition]) -> None:
        """On return no commit of these partitions is running or can start."""
        self._ledger.ask_release(leaving)
        self._mailbox.wait(lambda: self._ledger.is_released(leaving), None)
        for partition in leaving:
            self._parked.pop(partition, None)
        self.revoked_now.update(leaving)

    def _finish_hook(self, name: str, hook: Coroutine[object, object, None]) -> None:
        running = RunningHook(name, hook, self._loop)
        running.start()
        running.wait(self._settings.timeouts.hook.total_seconds())
        running.result()


def _partitions(parts: list[TopicPartition]) -> list[Partition]:
    return [Partition(each.topic, each.partition) for each in parts]

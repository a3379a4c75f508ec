"""What the transport is told: checked when constructed, never changed after."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum

from features.errors import Misdeclared
from workers.transport.retries import Retries

KafkaValue = str | int | float | bool

# Settings of librdkafka that the promises of this package rest on, and what to do instead of setting them.
_RESERVED = {
    "bootstrap.servers": "set bootstrap",
    "metadata.broker.list": "set bootstrap",
    "group.id": "set group",
    "transactional.id": "set transactional_id",
    "isolation.level": "leave it out: every role reads committed records only",
    "enable.auto.commit": "leave it out: offsets follow durable outputs",
    "enable.auto.offset.store": "leave it out: offsets follow durable outputs",
    "auto.offset.reset": "leave it out: a group without offsets starts at the oldest record",
    "partition.assignment.strategy": "leave it out: cooperative-sticky; or set group.protocol to consumer",
    "enable.partition.eof": "leave it out: commits past control markers need it",
    "enable.idempotence": "leave it out: outputs are neither repeated nor reordered by the producer",
    "acks": "leave it out: outputs are durable on all in-sync replicas first",
    "request.required.acks": "leave it out: outputs are durable on all in-sync replicas first",
    "delivery.report.only.error": "leave it out",
}


class Guarantee(StrEnum):
    """How often an output is visible to a reader of committed records."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


def _check_positive(owner: str, declared: "Limits | Timeouts") -> None:
    for each in fields(declared):
        value = getattr(declared, each.name)
        if value <= type(value)(0):
            raise Misdeclared(f"{owner}.{each.name}={value}; needed: more than zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When reading waits for the agents or for commits.

    Attributes:
        open_slices: Slices with the agents, over all partitions.
        open_slices_per_partition: Slices of one partition that are not done; beyond it only this one pauses.
        open_bytes: Bytes of slices with the agents.
        uncommitted_records: Records done but not committed.
    """

    open_slices: int = 16
    open_slices_per_partition: int = 8
    open_bytes: int = 64 << 20
    uncommitted_records: int = 100_000

    def __post_init__(self) -> None:
        _check_positive("limits", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long is waited for what.

    Attributes:
        drain: For slices in work when their partition leaves or the worker stops.
        hook: For on_revoke, on_lost, and for a cancelled on_assign to end.
        stuck: The age of an open slice, or of a step of a thread, at which the process ends.
        crash: From a failure to the end of the process, if need be by force.
    """

    drain: timedelta = timedelta(seconds=3)
    hook: timedelta = timedelta(seconds=30)
    stuck: timedelta = timedelta(minutes=5)
    crash: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        _check_positive("timeouts", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """One worker's place in a consumer group, and how it delivers.

    Attributes:
        bootstrap: ``host:port,...`` of the brokers.
        group: The consumer group.
        guarantee: At least once, or exactly once.
        transactional_id: Needed for exactly once: stable over restarts of this worker's slot, so that a new
            incarnation aborts what the last one left open; different for each worker that runs at the same time.
        slice_records: The most records a slice holds.
        commit_interval: From the first output to the commit of its offsets.
        limits: When reading waits.
        timeouts: How long is waited for what.
        retries: Of every call to the brokers that may be tried again.
        kafka: Settings of librdkafka: ``name`` for both clients, ``consumer.name`` or ``producer.name`` for one.
    """

    bootstrap: str
    group: str
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactional_id: str | None = None
    slice_records: int = 4000
    commit_interval: timedelta = timedelta(milliseconds=100)
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    kafka: Mapping[str, KafkaValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("bootstrap", self.bootstrap), ("group", self.group)):
            if not value:
                raise Misdeclared(f"transport.{name} is empty; it names {_MEANING[name]}")
        if self.slice_records < 1:
            raise Misdeclared(f"transport.slice_records={self.slice_records}; needed: at least 1")
        if self.commit_interval < timedelta(0):
            raise Misdeclared(f"transport.commit_interval={self.commit_interval}; needed: zero or more")
        self._check_transactional_id()
        for name in self.kafka:
            fix = _RESERVED.get(name.removeprefix("consumer.").removeprefix("producer."))
            if fix is not None:
                raise Misdeclared(f"kafka.{name} can't be set; {fix}")

    def _check_transactional_id(self) -> None:
        exactly_once = self.guarantee is Guarantee.EXACTLY_ONCE
        if exactly_once and not self.transactional_id:
            raise Misdeclared(
                "transport.guarantee is exactly_once but transport.transactional_id is missing; "
                "give each worker slot a stable one, such as <group>-0"
            )
        if not exactly_once and self.transactional_id is not None:
            raise Misdeclared(
                f"transport.transactional_id={self.transactional_id!r} has no meaning with at_least_once; "
                "leave it out, or set transport.guarantee to exactly_once"
            )


_MEANING = {"bootstrap": "the brokers, such as localhost:9092", "group": "the consumer group"}

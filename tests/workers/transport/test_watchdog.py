"""The watchdog on a clock that the test moves."""

from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import pytest
from confluent_kafka import Message

from features.errors import Unavailable
from workers.transport.partitions import Partition
from workers.transport.settings import Timeouts, TransportSettings
from workers.transport.shared import Shared
from workers.transport.slices import Records
from workers.transport.stats import TransportStats
from workers.transport.watchdog import Watchdog

WHERE = Partition("t", 0)


@dataclass
class Thread:
    name: str = "poller"
    stepped_at: float | None = None
    lives: bool = True

    def is_alive(self) -> bool:
        return self.lives


@dataclass
class World:
    """A shared ledger, a watchdog over it, and what the watchdog did."""

    now: float = 0.0
    crashes: list[BaseException] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        timeouts = Timeouts(
            drain=timedelta(seconds=3), stuck=timedelta(seconds=60), crash=timedelta(seconds=10)
        )
        settings = TransportSettings(bootstrap="b", group="g", timeouts=timeouts)
        self.shared = Shared(settings, lambda: self.now, TransportStats())
        self.watchdog = Watchdog(self.shared, self.crashes.append, self.exits.append)

    def look(self, now: float) -> None:
        self.now = now
        self.watchdog.look(now)


@pytest.fixture
def world() -> World:
    return World()


def open_a_slice(world: World) -> None:
    ledger = world.shared.ledger
    ledger.assign([(WHERE, 5)])
    message = Message(topic="t", partition=0, offset=5, value=b"")
    span = ledger.add(Records(WHERE, [message], np.array([5], np.int64)), shares=1)
    assert span is not None
    ledger.open([span])


def test_all_is_well_as_long_as_slices_and_threads_move(world: World) -> None:
    open_a_slice(world)
    thread = Thread(stepped_at=0.0)
    world.watchdog.watch([thread])
    world.look(59.9)
    assert (world.crashes, world.exits) == ([], [])


def test_a_slice_that_stays_open_ends_the_process(world: World) -> None:
    open_a_slice(world)
    world.look(60.0)
    (error,) = world.crashes
    assert isinstance(error, Unavailable)
    assert "a slice of t[0] has been open for 60.0 s (committed 5, read up to 6)" in str(error)
    assert world.shared.ledger.failure is error


@pytest.mark.parametrize(
    ("thread", "message"),
    [
        (Thread(lives=False), "thread poller has died"),
        (Thread(stepped_at=-1.0), "thread poller has not moved for 60.0 s"),
    ],
)
def test_a_thread_that_is_dead_or_hangs_ends_the_process(world: World, thread: Thread, message: str) -> None:
    world.watchdog.watch([thread])
    world.look(59.0)
    assert [str(error) for error in world.crashes] == [message]


def test_a_process_that_does_not_end_by_itself_is_ended_by_force(world: World) -> None:
    world.watchdog.fail(Unavailable("the broker is gone"))
    world.look(9.9)
    assert world.exits == []
    world.look(10.0)
    assert world.exits == ["Unavailable: the broker is gone"]
    assert len(world.crashes) == 1


def test_a_worker_that_leaves_has_the_time_of_its_drain_and_a_crash(world: World) -> None:
    world.watchdog.watch([Thread(lives=False)])
    world.watchdog.expect_end()
    world.look(12.9)
    assert (world.crashes, world.exits) == ([], [])
    world.look(13.0)
    assert world.exits == ["the worker did not leave in time"]


def test_only_the_first_failure_counts(world: World) -> None:
    world.watchdog.fail(Unavailable("first"))
    world.look(5.0)
    world.watchdog.fail(Unavailable("second"))
    world.look(10.0)
    assert world.exits == ["Unavailable: first"]

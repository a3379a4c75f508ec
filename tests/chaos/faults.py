"""What is done to workers and brokers; each ends with everybody running again."""

import time
from collections.abc import Callable
from random import Random

from tests.chaos.fleet import Fleet
from workers.brokers import KafkaBroker

SESSION_SECONDS = 3.0
"""After which a silent member is taken for dead."""


def kill(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001 - every fault has one signature
    """``kill -9`` of one worker."""
    fleet.kill(random.randrange(fleet.size))


def kill_two(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """``kill -9`` of two workers, a moment apart."""
    for slot in random.sample(range(fleet.size), 2):
        fleet.kill(slot)
        time.sleep(random.uniform(0, 0.5))


def zombie(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """SIGSTOP for longer than the session: others take over, then it comes back."""
    slot = random.randrange(fleet.size)
    fleet.freeze(slot)
    time.sleep(SESSION_SECONDS * random.uniform(1.3, 2.0))
    fleet.thaw(slot)


def terminate(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """SIGTERM of one worker."""
    code = fleet.leave(random.randrange(fleet.size))
    assert code == 0, f"a worker that was asked to stop ended with {code}; {fleet.last_words()}"


def rolling_restart(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """SIGTERM of one worker after the other, each new one ready before the next leaves."""
    for slot in range(fleet.size):
        fleet.leave(slot)
        fleet.wait_until_ready()


def crash_broker(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """``kill -9`` of the broker, and a start on its data."""
    broker.kill()
    time.sleep(random.uniform(0, 2))
    broker.start()


def freeze_broker(fleet: Fleet, broker: KafkaBroker, random: Random) -> None:  # noqa: ARG001
    """The broker answers nothing for some seconds."""
    broker.pause()
    time.sleep(random.uniform(0.5, 6))
    broker.resume()


Fault = Callable[[Fleet, KafkaBroker, Random], None]
FAULTS: dict[Fault, int] = {
    kill: 6, kill_two: 2, zombie: 4, terminate: 3, rolling_restart: 1, crash_broker: 2, freeze_broker: 2,
}  # fmt: skip
"""Each, and how often it is drawn beside the others."""


def drawn(random: Random) -> Fault:
    """One of them."""
    return random.choices(list(FAULTS), weights=list(FAULTS.values()))[0]

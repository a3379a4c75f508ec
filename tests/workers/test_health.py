from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.health import STALLED_AFTER, Check, Health, as_json
from workers.transport.partitions import Partition
from workers.transport.stats import PartitionStatus, TransportStatus

HERE = Partition("t", 0)


@dataclass
class Watched:
    """A worker in good order; each test spoils something."""

    partitions: tuple[PartitionStatus, ...] = ()
    poller: bool = True
    delivery: bool = True
    answered: float | None = 1.0
    broken: BaseException | None = None
    inference: str | None = None
    joined: bool = True
    model: Check = field(default_factory=lambda: Check(True, "right"))
    lag: int | None = 0
    now: float = 100.0

    def status(self) -> TransportStatus:
        return TransportStatus(
            partitions=self.partitions, poller_is_alive=self.poller, delivery_is_alive=self.delivery,
            answered=self.answered, failure=self.broken,
        )  # fmt: skip

    def lags(self) -> Mapping[Partition, int | None]:
        return {HERE: self.lag}

    def has_joined(self) -> bool:
        return self.joined

    def recovery(self) -> str:
        return "3 of 7 offsets replayed"

    def is_model_right(self) -> Check:
        return self.model

    def failure(self) -> str | None:
        return self.inference


def at(committed: int, *, loading: bool = False) -> tuple[PartitionStatus, ...]:
    return (
        PartitionStatus(
            partition=HERE,
            position=committed,
            committed=committed,
            open_slices=0,
            oldest_open=None,
            is_loading=loading,
        ),
    )


def red(checks: Mapping[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if not check.is_ok]


def test_a_worker_in_good_order_is_ready_and_live() -> None:
    watched = Watched(partitions=at(5))
    health = Health(watched, lambda: watched.now)
    assert red(health.ready()) == red(health.live()) == []
    assert health.was_ready
    assert as_json(health.live())["failure"] == {"ok": True, "detail": "none"}


def test_each_thing_that_is_wrong_turns_ready_red() -> None:
    for spoiled, names in (
        (Watched(joined=False), ["assignment"]),
        (Watched(partitions=at(5, loading=True)), ["assignment"]),
        (Watched(answered=None), ["broker"]),
        (Watched(answered=60.0), ["broker"]),
        (Watched(model=Check(False, "wrong")), ["model"]),
        (Watched(poller=False, delivery=False), ["assignment"]),
        (Watched(broken=RuntimeError("x")), ["failure"]),
        (Watched(inference="died"), ["failure"]),
        (Watched(delivery=False), ["threads"]),
    ):
        health = Health(spoiled, lambda: 0.0)
        assert red(health.ready()) == names, spoiled
        assert not health.was_ready


def test_only_what_a_new_process_can_mend_turns_live_red() -> None:
    for spoiled, names in (
        (Watched(poller=False, delivery=False, answered=None, joined=False, model=Check(False, "")), []),
        (Watched(broken=RuntimeError("x")), ["failure"]),
        (Watched(poller=False), ["threads"]),
    ):
        assert red(Health(spoiled, lambda: 0.0).live()) == names


def test_a_stream_that_stands_though_there_is_lag_turns_ready_red() -> None:
    watched = Watched(partitions=at(5), lag=10)
    health = Health(watched, lambda: watched.now)
    assert red(health.ready()) == []
    watched.now += STALLED_AFTER - 1
    assert red(health.ready()) == []
    watched.now += 1
    assert red(health.ready()) == ["stream"]
    assert health.ready()["stream"].detail == "t[0] stands at 5 with lag 10 for 30 s"
    watched.partitions = at(6)
    assert red(health.ready()) == []


def test_a_stream_without_lag_or_of_unknown_lag_may_stand() -> None:
    watched = Watched(partitions=at(5))
    health = Health(watched, lambda: watched.now)
    for watched.lag in (0, None):
        health.ready()
        watched.now += 10 * STALLED_AFTER
        assert red(health.ready()) == []

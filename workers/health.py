"""Health: what ``/live`` and ``/ready`` say, and why.

``/live`` is red when the process can't recover by itself: then the watchdog ends it anyway. ``/ready`` is
red until state is loaded and the model warm, and whenever the stream does not advance though there is
lag, the model does not give its known answer, or no broker answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from workers.transport.partitions import Partition
from workers.transport.stats import TransportStatus

BROKER_SILENT_AFTER = 15.0
STALLED_AFTER = 30.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be so."""

    is_ok: bool
    detail: str


Checks = Mapping[str, Check]


class Watched(Protocol):
    """What health looks at."""

    def status(self) -> TransportStatus:
        """The transport."""
        ...

    def has_joined(self) -> bool:
        """Whether the group has given partitions, or none, since the start."""
        ...

    def lags(self) -> Mapping[Partition, int | None]:
        """Offsets behind, by partition; ``None`` is unknown."""
        ...

    def recovery(self) -> str:
        """How far the recovery of state is, for people."""
        ...

    def is_model_right(self) -> Check:
        """Whether the model gives its known answer, through the thread that serves."""
        ...

    def failure(self) -> str | None:
        """Why a thread of ours has ended, or ``None``."""
        ...


class Health:
    """Judges a worker.

    Args:
        watched: The worker.
        clock: Seconds, monotonic.

    Attributes:
        was_ready: The last verdict of `ready`.
    """

    def __init__(self, watched: Watched, clock: Callable[[], float]) -> None:
        self._watched, self._clock = watched, clock
        self._advanced: dict[Partition, tuple[int, float]] = {}
        self.was_ready = False

    def live(self) -> Checks:
        """What only a new process can mend."""
        status = self._watched.status()
        failure = self._watched.failure() or (None if status.failure is None else str(status.failure))
        started = status.poller_is_alive or status.delivery_is_alive
        alive = not started or (status.poller_is_alive and status.delivery_is_alive)
        return {
            "failure": Check(failure is None, failure or "none"),
            "threads": Check(alive, "alive" if alive else "a thread of the transport has ended"),
        }

    def ready(self) -> Checks:
        """Whether predictions come out now."""
        status = self._watched.status()
        checks = {
            **self.live(),
            "assignment": self._assignment(status),
            "broker": self._broker(status),
            "stream": self._stream(status),
            "model": self._watched.is_model_right(),
        }
        self.was_ready = all(check.is_ok for check in checks.values())
        return checks

    def _assignment(self, status: TransportStatus) -> Check:
        if not status.poller_is_alive:
            return Check(False, "not reading yet")
        loading = [str(each.partition) for each in status.partitions if each.is_loading]
        if loading:
            return Check(False, f"state is being loaded: {', '.join(loading)}; {self._watched.recovery()}")
        if not self._watched.has_joined():
            return Check(False, "the group has given no partitions yet")
        return Check(True, f"{len(status.partitions)} partitions")

    def _broker(self, status: TransportStatus) -> Check:
        if status.answered is None:
            return Check(False, "no broker has answered yet")
        return Check(status.answered < BROKER_SILENT_AFTER, f"a broker answered {status.answered:.1f} s ago")

    def _stream(self, status: TransportStatus) -> Check:
        """Every partition with lag has to have moved lately."""
        now, lags = self._clock(), self._watched.lags()
        stalled = []
        for each in status.partitions:
            committed, since = self._advanced.get(each.partition, (-1, now))
            if committed != each.committed or not lags.get(each.partition):
                since = now
            self._advanced[each.partition] = (each.committed, since)
            if now - since >= STALLED_AFTER:
                stalled.append(
                    f"{each.partition} stands at {each.committed} with lag {lags[each.partition]} for {now - since:.0f} s"
                )
        return Check(not stalled, "; ".join(stalled) or "advancing")


def as_json(checks: Checks) -> dict[str, dict[str, object]]:
    """The checks as JSON has them."""
    return {name: {"ok": check.is_ok, "detail": check.detail} for name, check in checks.items()}

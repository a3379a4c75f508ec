"""The end of the process when it can't go on: by the event loop if that still turns, by force if not.

The process is what Kafka can replace: its partitions go to other workers, its records come again. So whatever
does not recover by itself ends it, with the reason on stderr and an exit code that is not zero.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from features.errors import Unavailable
from workers.transport.shared import Shared

_LOOK_SECONDS = 0.5


class Stepping(Protocol):
    """A thread that notes when it begins a step."""

    name: str
    stepped_at: float | None

    def is_alive(self) -> bool:
        """True while it runs."""
        ...


def exit_now(reason: str) -> NoReturn:
    """End the process without asking anybody: no handler, no other thread can keep it."""
    os.write(2, f"headrace: {reason}; the process ends now\n".encode())
    os._exit(1)


class Watchdog(threading.Thread):
    """Looks for what does not recover, and sees to it that the process ends.

    Args:
        shared: The timeouts, and the ledger with the open slices.
        crash: Ends the process through the event loop; called from any thread, may do nothing.
        exit_now: Ends the process by force.
    """

    def __init__(
        self,
        shared: Shared,
        crash: Callable[[BaseException], None],
        exit_now: Callable[[str], None] = exit_now,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._timeouts = shared.settings.timeouts
        self._ledger = shared.ledger
        self._clock = shared.clock
        self._crash = crash
        self._exit_now = exit_now
        self._threads: Sequence[Stepping] = ()
        self._leaving = False
        self._must_end_at: float | None = None
        self._ended = threading.Event()

    def watch(self, threads: Sequence[Stepping]) -> None:
        """These threads have to stay alive, and to move, until :meth:`expect_end`."""
        self._threads = threads

    def fail(self, error: BaseException) -> None:
        """The process can't go on, for this reason; from any thread."""
        self._ledger.fail(error)
        self._set_deadline(self._timeouts.crash.total_seconds())
        self._crash(error)

    def expect_end(self) -> None:
        """The worker is leaving: it must have ended in time."""
        self._leaving = True
        self._set_deadline((self._timeouts.drain + self._timeouts.crash).total_seconds())

    def ended(self) -> None:
        """The worker has left in good order: nothing to watch any more."""
        self._ended.set()

    def run(self) -> None:
        """Look again and again."""
        while not self._ended.wait(_LOOK_SECONDS):
            self.look(self._clock())

    def look(self, now: float) -> None:
        """One look; ``now`` on the transport's clock."""
        if self._must_end_at is not None:
            if now >= self._must_end_at:
                why = self._ledger.failure or "the worker did not leave in time"
                self._exit_now(f"{type(why).__name__}: {why}" if isinstance(why, BaseException) else why)
            return
        fault = self._fault(now)
        if fault is not None:
            self.fail(Unavailable(fault))

    def _set_deadline(self, seconds: float) -> None:
        if self._must_end_at is None:
            self._must_end_at = self._clock() + seconds

    def _fault(self, now: float) -> str | None:
        stuck = self._timeouts.stuck.total_seconds()
        ages = {each: each.oldest_open for each in self._ledger.status(now) if each.oldest_open is not None}
        if ages and max(ages.values()) >= stuck:
            oldest = max(ages, key=ages.__getitem__)
            return (
                f"a slice of {oldest.partition} has been open for {ages[oldest]:.1f} s "
                f"(committed {oldest.committed}, read up to {oldest.position}): its agent is stuck, or "
                "never calls done()"
            )
        for thread in self._threads:
            if not thread.is_alive():
                return f"thread {thread.name} has died"
            if thread.stepped_at is not None and now - thread.stepped_at >= stuck:
                return f"thread {thread.name} has not moved for {now - thread.stepped_at:.1f} s"
        return None

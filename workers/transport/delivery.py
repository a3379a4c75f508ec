"""The thread that owns the producer: makes outputs durable, in the order of their sources.

What differs between the guarantees is a :class:`Mode`; see ``at_least_once.py`` and ``exactly_once.py``.
"""

import threading
from collections.abc import Callable, Collection
from typing import Protocol

from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.shared import Shared

_IDLE_SECONDS = 1.0  # a step at least so often, so that the watchdog sees that the thread is well


class Mode(Protocol):
    """One guarantee, as the delivery thread uses it."""

    def start(self) -> None:
        """Make the producer ready."""
        ...

    def takes_more(self, now: float) -> bool:
        """True when finished spans may be produced now."""
        ...

    @property
    def is_pending(self) -> bool:
        """True when something was produced that is not durable yet."""
        ...

    def pause(self, now: float) -> float | None:
        """Seconds until :meth:`advance` has something to do without any new span; None for never."""
        ...

    def produce(self, spans: list[Span], now: float) -> None:
        """Hand over the outputs of these spans."""
        ...

    def advance(self, now: float, *, hurry: bool) -> None:
        """Bring what was produced nearer to durable; with ``hurry`` as fast as can be."""
        ...

    def forget(self, partitions: Collection[Partition], now: float) -> None:
        """These partitions leave: on return nothing will be committed for them any more."""
        ...


class Delivery(threading.Thread):
    """Takes finished spans out of the ledger and through a mode, until told to stop.

    Args:
        shared: Its ledger is where the spans come from.
        mode: The guarantee.
        on_failure: Called with what ended the thread, if that is an error.

    Attributes:
        stepped_at: When the last step began, on the clock; None before the first.
    """

    def __init__(self, shared: Shared, mode: Mode, on_failure: Callable[[BaseException], None]) -> None:
        super().__init__(name="delivery", daemon=True)
        self._ledger = shared.ledger
        self._clock = shared.clock
        self._mode = mode
        self._idle_seconds = min(_IDLE_SECONDS, shared.settings.timeouts.stuck.total_seconds() / 4)
        self._on_failure = on_failure
        self.stepped_at: float | None = None

    def run(self) -> None:
        """Work until the ledger says stop and nothing is pending."""
        try:
            self._mode.start()
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 -- whatever ends a thread ends the process
            if not self._ledger.is_stopping:  # else nothing depends on it any more
                self._on_failure(error)

    def _step(self) -> bool:
        self.stepped_at = now = self._clock()
        pause = self._mode.pause(now)
        work = self._ledger.next_work(
            takes_more=self._mode.takes_more(now),
            is_pending=self._mode.is_pending,
            timeout=self._idle_seconds if pause is None else pause,
        )
        now = self._clock()
        if work.releasing:
            self._mode.forget(work.releasing, now)
            self._ledger.release(work.releasing)
            return True
        self._mode.advance(now, hurry=work.hurry)
        # Taken after the look: what counts as produced was produced when the mode finds everything durable.
        spans = self._ledger.take_fresh() if self._mode.takes_more(now) else []
        if spans:
            self._mode.produce(spans, now)
        return not work.stopping or self._mode.is_pending

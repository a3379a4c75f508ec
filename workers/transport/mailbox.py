"""Calls that other threads queue for the poller, and waiting that goes on with them.

Everything in which the poller waits goes through here: a wait that left the calls alone could wait for one of them.
"""

from collections import deque
from collections.abc import Callable

from workers.transport.ledger import Clock, Ledger


class Mailbox:
    """The poller's queue of calls.

    Args:
        ledger: Its condition is what everybody waits on.
        clock: Seconds, monotonic.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._calls: deque[Callable[[], None]] = deque()

    def post(self, call: Callable[[], None]) -> None:
        """Queue a call; from any thread."""
        self._calls.append(call)
        self._ledger.wake()

    def run(self) -> None:
        """Make the queued calls; on the poller's thread."""
        while self._calls:
            self._calls.popleft()()

    def wait(self, condition: Callable[[], object], seconds: float | None) -> bool:
        """Wait for a condition, making calls meanwhile; on the poller's thread.

        Returns:
            True when the condition holds or the process is ending, False when the time was over before.
        """
        deadline = None if seconds is None else self._clock() + seconds
        while True:
            self.run()
            left = None if deadline is None else deadline - self._clock()
            if self._ledger.failure is not None or condition():
                return True
            if left is not None and left <= 0:
                return False
            self._ledger.wait(lambda: self._calls or condition(), left)

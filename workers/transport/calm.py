"""A log filter against the storms of a client whose broker is away: it tells of each attempt to connect."""

import logging
from collections.abc import Callable

_KIND_CHARACTERS = 80
_KNOWN = "enable.gapless.guarantee is experimental"  # said at every start of a producer that it is set for


class Calm(logging.Filter):
    """Lets one message of a kind through per while; a kind is how the message begins.

    Args:
        clock: Seconds, monotonic.
        seconds: How long the same kind stays silent.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = 5.0) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True when the message may pass."""
        message, now = record.getMessage(), self._clock()
        if _KNOWN in message:
            return False
        kind = message[:_KIND_CHARACTERS]
        if now - self._told.get(kind, -self._seconds) < self._seconds:
            return False
        self._told[kind] = now
        return True

"""What all threads of one transport share."""

from dataclasses import dataclass, field

from workers.transport.ledger import Clock, Ledger
from workers.transport.settings import TransportSettings
from workers.transport.stats import TransportStats


@dataclass(frozen=True, slots=True)
class Shared:
    """The settings, the clock, the counters and the ledger of one transport.

    Attributes:
        settings: What was declared.
        clock: Seconds, monotonic; the only clock that is read.
        stats: The counters.
        ledger: Where the threads meet.
    """

    settings: TransportSettings
    clock: Clock
    stats: TransportStats
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ledger", Ledger(self.settings.limits, self.clock, self.stats))

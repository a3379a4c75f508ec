"""How often and how long a call to a dependency is tried again."""

import random
from dataclasses import dataclass
from datetime import timedelta

from features.errors import Misdeclared, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Exponential backoff with full jitter, and a deadline.

    Attributes:
        first: The longest wait after the first failure; it doubles with each further one.
        longest: The longest wait ever.
        deadline: Give up when failures have followed each other for this long.
    """

    first: timedelta = timedelta(milliseconds=50)
    longest: timedelta = timedelta(seconds=2)
    deadline: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.first <= self.longest <= self.deadline:
            raise Misdeclared(
                f"retries: first={self.first}, longest={self.longest}, deadline={self.deadline}; "
                "needed: 0 < first <= longest <= deadline"
            )


class Attempts:
    """The tries of one kind of call: how long to wait now, and when to give up."""

    def __init__(self, policy: Retries, what: str) -> None:
        self._policy = policy
        self._what = what
        self._failures = 0
        self._since = 0.0
        self._last = 0.0

    def succeeded(self) -> None:
        """The call came through: the next failure is a first one."""
        self._failures = 0

    def failed(self, error: BaseException | str, now: float) -> float:
        """Seconds to wait before the next try.

        Raises:
            Unavailable: The deadline is over.
        """
        deadline = self._policy.deadline.total_seconds()
        if not self._failures or now - self._last > deadline:  # nobody has tried for so long
            self._failures, self._since = 0, now
        self._failures += 1
        self._last = now
        past = now - self._since
        if past >= deadline:
            raise Unavailable(f"{self._what}: failed {self._failures} times in {past:.0f} s, last: {error}")
        longest = self._policy.first.total_seconds() * 2.0 ** min(self._failures - 1, 30)
        return random.uniform(0.5, 1.0) * min(longest, self._policy.longest.total_seconds())

"""The three signals of Headrace; anything else that is raised is a bug and ends the process.

::

    Malformed     this record is at fault      -> dead letter, the stream goes on
    Unavailable   a dependency is at fault     -> bounded retries, then the process ends and Kafka replays
    Misdeclared   the declaration is at fault  -> refused before the first record is read
"""

from collections.abc import Iterator
from contextlib import contextmanager


class HeadraceError(Exception):
    """What every signal of Headrace is; catch one of the three below instead."""


class Malformed(HeadraceError):
    """This record can never succeed: a pure function of its bytes and the declaration.

    Args:
        reason: A short, stable word for headers and metrics, such as ``wrong_type``.
        detail: A sentence that names the field, the value and what was expected.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Unavailable(HeadraceError):
    """A dependency did not answer; the same call may succeed later."""


class Misdeclared(HeadraceError):
    """A declaration can't be right; the message names the field, the value and the fix."""


@contextmanager
def declared_as(what: str) -> Iterator[None]:
    """Puts the place in a declaration, such as ``score_when``, before the message of a `Misdeclared`."""
    try:
        yield
    except Misdeclared as error:
        raise Misdeclared(f"{what}: {error}") from error

"""SIGTERM before Faust listens to it; imports nothing else, so that a program can begin with it."""

import os
import signal
from types import FrameType


def leave_quietly_on_sigterm() -> None:
    """Let SIGTERM end the process with exit code 0; for the first lines of a program, before its other imports.

    Faust replaces this by its own handler, which drains, when it starts. Before that nothing was read, so there is
    nothing to drain; without this a worker that is told to go while it still imports dies of the signal (-15).
    """
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    os._exit(0)  # an exception would rise inside an import, and some of them turn it into another one

"""A coroutine that runs on the event loop while another thread waits for it, or cancels it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from features.errors import Unavailable

Result = TypeVar("Result")


class RunningHook(Generic[Result]):
    """One run of one state hook, seen from another thread than the loop's.

    Args:
        name: What to call it in messages.
        hook: The coroutine.
        loop: Where it runs.
        then: Called on the loop when it has ended, however.
    """

    def __init__(
        self,
        name: str,
        hook: Coroutine[object, object, Result],
        loop: asyncio.AbstractEventLoop,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        self._name = name
        self._hook = hook
        self._loop = loop
        self._then = then
        self._ended = threading.Event()
        self._task: asyncio.Task[Result] | None = None

    def start(self) -> None:
        """Let it begin."""
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Ask it to end; see :meth:`wait`."""
        self._loop.call_soon_threadsafe(self._cancel)

    def wait(self, seconds: float) -> None:
        """Return when it has ended.

        Raises:
            Unavailable: It has not within so many seconds.
        """
        if not self._ended.wait(seconds):
            raise Unavailable(f"{self._name} did not end within {seconds:g} s")

    def result(self) -> Result:
        """What it returned, or what it raised; only after it has ended."""
        assert self._task is not None
        return self._task.result()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._hook)
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()

    def _end(self, _: "asyncio.Task[Result]") -> None:
        self._ended.set()
        self._then()

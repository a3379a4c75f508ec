import asyncio
import threading
from collections.abc import Iterator

import pytest

from features.errors import Unavailable
from workers.transport.running_hook import RunningHook


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_its_result_is_there_when_it_has_ended(loop: asyncio.AbstractEventLoop) -> None:
    told: list[str] = []

    async def hook() -> int:
        return 7

    running = RunningHook("hook", hook(), loop, then=lambda: told.append("ended"))
    running.start()
    running.wait(5.0)
    assert running.result() == 7


def test_what_it_raises_is_raised_where_its_result_is_asked_for(loop: asyncio.AbstractEventLoop) -> None:
    async def hook() -> None:
        raise LookupError("no checkpoint")

    running = RunningHook("hook", hook(), loop)
    running.start()
    running.wait(5.0)
    with pytest.raises(LookupError, match="no checkpoint"):
        running.result()


def test_a_cancelled_one_has_ended_only_after_it_has_cleaned_up(loop: asyncio.AbstractEventLoop) -> None:
    steps: list[str] = []

    async def hook() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    running = RunningHook("hook", hook(), loop)
    running.start()
    running.cancel()
    running.wait(5.0)
    assert steps in (["cleaned up"], [])  # empty when it was cancelled before it began
    with pytest.raises(asyncio.CancelledError):
        running.result()


def test_one_that_does_not_end_is_not_waited_for_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    release = asyncio.Event()

    async def hook() -> None:
        await release.wait()

    running = RunningHook("on_revoke", hook(), loop)
    running.start()
    with pytest.raises(Unavailable, match=r"on_revoke did not end within 0\.01 s"):
        running.wait(0.01)
    loop.call_soon_threadsafe(release.set)
    running.wait(5.0)

"""Reading ahead: what is slow to come is made in a thread while the last is worked on."""

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item], depth: int = 2) -> Generator[Item]:
    """The same items, up to ``depth`` of them made ahead in a thread; its exception comes in its place.

    When nobody takes them any more they are closed, if they are a generator.
    """
    maker = _Maker(items, depth)
    thread = threading.Thread(target=maker.run, daemon=True)
    thread.start()
    try:
        yield from maker.taken()
    finally:
        maker.stop.set()
        thread.join()


class _Maker(Generic[Item]):
    """What the thread does, and what was made and not yet taken."""

    def __init__(self, items: Iterator[Item], depth: int) -> None:
        self.stop = threading.Event()
        self._items = items
        self._made = queue.Queue[Item | _Ended](depth)

    def taken(self) -> Iterator[Item]:
        """The items."""
        while not isinstance(item := self._made.get(), _Ended):
            yield item
        if item.error is not None:
            raise item.error

    def run(self) -> None:
        """Make them until they end, or are to stop."""
        try:
            for item in self._items:
                self._put(item)
                if self.stop.is_set():
                    break
            if isinstance(self._items, Generator):
                self._items.close()
        except BaseException as error:  # noqa: BLE001 - raised where the items are taken
            self._put(_Ended(error))
        else:
            self._put(_Ended(None))

    def _put(self, item: "Item | _Ended") -> None:
        while not self.stop.is_set():
            try:
                self._made.put(item, timeout=0.1)
            except queue.Full:
                continue
            return


class _Ended:
    """Behind the last item, with what ended them."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

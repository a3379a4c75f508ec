"""Shards: the keys of every partition split over processes, each of which folds its own.

What a key's rows depend on beside its own events is the watermark of its partition, and that goes along with each
event. So the bits are those of one process. Columns and rows pass through shared memory.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from features.columns import Columns
from features.engine import Engine
from features.errors import Unavailable
from features.folder import Folder, Lane, LaneRows, LocalFolder
from features.rows import Rows
from features.schema import Schema

Shapes = Sequence[tuple[tuple[int, ...], type[np.generic]]]


@contextmanager
def folder(engine: Engine, processes: int) -> Iterator[Folder]:
    """Where to fold: here if one process is enough."""
    with nullcontext(LocalFolder(engine)) if processes == 1 else Shards(engine, processes) as chosen:
        yield chosen


class Shards:
    """Processes that fold, from the ``with`` block's begin to its end.

    Args:
        engine: What to compute.
        shards: How many processes.
    """

    def __init__(self, engine: Engine, shards: int) -> None:
        self._engine, self.shards = engine, shards
        self._closing = ExitStack()
        self._processes: list[_Process] = []

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self._processes = [
                closing.enter_context(_Process(self._engine, number, self.shards))
                for number in range(self.shards)
            ]
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def submit(self, lanes: Sequence[Lane]) -> Callable[[], Sequence[LaneRows]]:
        """Fold the lanes of a batch; the call waits for their rows.

        Raises:
            Unavailable: A process has ended; by the call.
        """
        mine = [[lane for lane in lanes if lane.shard == shard] for shard in range(self.shards)]
        rows = [process.submit(its) for process, its in zip(self._processes, mine, strict=True)]

        def wait() -> Sequence[LaneRows]:
            of_shard = [iter(future()) for future in rows]
            return [next(of_shard[lane.shard]) for lane in lanes]

        return wait


class _Process:
    """One of them, and a thread that waits for it."""

    def __init__(self, engine: Engine, number: int, shards: int) -> None:
        self._engine, self._name = engine, f"{number + 1} of {shards}"

    def __enter__(self) -> Self:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        parts = self._engine.schema, self._engine.sets, self._engine.score_when
        self._process = context.Process(target=_serve, args=(theirs, *parts), daemon=True)
        self._process.start()
        theirs.close()
        self._columns, self._rows = _Memory(), _Memory()
        self._thread = ThreadPoolExecutor(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._thread.shutdown()
        self._columns.close()
        self._rows.close()

    def submit(self, lanes: Sequence[Lane]) -> Callable[[], Sequence[LaneRows]]:
        if not lanes:
            return lambda: ()
        return self._thread.submit(self._fold, lanes).result

    def _fold(self, lanes: Sequence[Lane]) -> Sequence[LaneRows]:
        """Hand the columns over, and copy the rows when they are there."""
        sizes = [len(lane.columns) for lane in lanes]
        texts = lanes[0].columns.buffer  # one of the whole batch
        asked = _Asked(
            partitions=[lane.partition for lane in lanes], sizes=sizes, fields=lanes[0].columns.words.shape[0],
            texts=len(texts), columns="", rows="",
        )  # fmt: skip
        asked.columns = self._columns.room(_size(asked.shapes))
        row_shapes = [shape for size in sizes for shape in _row_shapes(self._engine, size)]
        asked.rows = self._rows.room(_size(row_shapes))
        arrays: list[NDArray[Any]] = [texts]
        for lane in lanes:
            assert lane.heights is not None
            arrays += [lane.columns.words, lane.columns.valid, lane.columns.times, lane.heights]
        for target, array in zip(_cut(self._columns.memory, asked.shapes), arrays, strict=True):
            target[...] = array
        try:
            self._connection.send(asked)
            counts = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise Unavailable(
                f"Process {self._name} that folds ended with {self._process.exitcode}; with -9 the machine was "
                "probably short of memory: give fewer --workers"
            ) from error
        found = iter(_cut(self._rows.memory, row_shapes))
        return [_taken(count, next(found), next(found), next(found), next(found)) for count in counts]


@dataclass(slots=True)
class _Asked:
    """What a process is told of a batch.

    Args:
        partitions: Of each lane.
        sizes: Events of each lane.
        fields: Of the columns.
        texts: Bytes that texts refer to.
        columns: Name of the memory they stand in.
        rows: Name of the memory for the rows.
    """

    partitions: list[int]
    sizes: list[int]
    fields: int
    texts: int
    columns: str
    rows: str

    @property
    def shapes(self) -> Shapes:
        """Of the arrays that are handed over."""
        shapes: list[tuple[tuple[int, ...], type[np.generic]]] = [((self.texts,), np.uint8)]
        for n in self.sizes:
            shapes += [
                ((self.fields, n), np.int64),
                ((self.fields, n), np.uint8),
                ((n,), np.int64),
                ((n,), np.int64),
            ]
        return shapes


def _row_shapes(engine: Engine, n: int) -> Shapes:
    """Of the arrays for the rows of ``n`` events: block, ids, digests, events."""
    floats, categories = len(engine.float_columns), len(engine.category_columns)
    return [((n, floats), np.float32), ((n, categories), np.int64), ((n,), np.uint64), ((n,), np.int64)]


def _taken(
    count: int, block: NDArray[Any], ids: NDArray[Any], digests: NDArray[Any], events: NDArray[Any]
) -> LaneRows:
    """A copy of as many rows as there are."""
    rows = Rows(block=block[:count].copy(), ids=ids[:count].copy(), events=events[:count].copy())
    return LaneRows(rows, digests[:count].copy())


def _serve(connection: Connection, schema: Schema, sets: Any, score_when: Any) -> None:
    """Fold what comes until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks is interrupted as well, and ends this one
    engine = Engine(schema, sets, score_when)
    local, memories = LocalFolder(engine), _Attached()
    with suppress(EOFError, OSError):
        while True:
            asked: _Asked = connection.recv()
            connection.send(_fold_asked(engine, local, asked, memories[asked.columns], memories[asked.rows]))


def _fold_asked(
    engine: Engine, local: LocalFolder, asked: _Asked, columns: SharedMemory, rows: SharedMemory
) -> list[int]:
    """How many rows each lane has; they are in the memory."""
    texts, *arrays = _cut(columns, asked.shapes)
    targets = _cut(rows, [shape for n in asked.sizes for shape in _row_shapes(engine, n)])
    counts = []
    for lane, (partition, n) in enumerate(zip(asked.partitions, asked.sizes, strict=True)):
        words, valid, times, heights = arrays[4 * lane : 4 * lane + 4]
        events = Columns(
            schema=engine.schema, buffer=texts, words=words, valid=valid, times=times, positions=np.arange(n)
        )
        found = local.fold(partition, events, heights)
        made: list[NDArray[Any]] = [found.rows.block, found.rows.ids, found.digests, found.rows.events]
        for target, array in zip(targets[4 * lane : 4 * lane + 4], made, strict=True):
            target[: len(array)] = array
        counts.append(len(found.rows))
    return counts


class _Memory:
    """Shared memory that is made anew when it is too small."""

    def __init__(self) -> None:
        self.memory = SharedMemory(create=True, size=1)

    def room(self, size: int) -> str:
        """Its name, once it has room for so many bytes."""
        if self.memory.size < size:
            self.close()
            self.memory = SharedMemory(create=True, size=2 * size)
        return self.memory.name

    def close(self) -> None:
        with suppress(BufferError):  # a view is alive still; it goes with the process
            self.memory.close()
        self.memory.unlink()


class _Attached(dict[str, SharedMemory]):
    """The same from the other side, by name; only the last two are used."""

    def __missing__(self, name: str) -> SharedMemory:
        self[name] = SharedMemory(name)
        return self[name]


def _size(shapes: Shapes) -> int:
    return sum(_bytes(shape, kind) for shape, kind in shapes)


def _bytes(shape: tuple[int, ...], kind: type[np.generic]) -> int:
    """Rounded up: every array is aligned."""
    return -(-int(np.prod(shape)) * np.dtype(kind).itemsize // 8) * 8


def _cut(memory: SharedMemory, shapes: Shapes) -> list[NDArray[Any]]:
    """Arrays of these shapes, one behind the other."""
    arrays, at = [], 0
    for shape, kind in shapes:
        arrays.append(np.ndarray(shape, kind, memory.buf, at))
        at += _bytes(shape, kind)
    return arrays

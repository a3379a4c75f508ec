"""Cutting what one fetch returned into records per partition, without a Python step per record."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from workers.transport.partitions import Partition


def runs(messages: list[Message], *, one_topic: bool) -> dict[Partition, list[Message]]:
    """The messages of each partition, in the order in which they came.

    Args:
        messages: At least one.
        one_topic: True when all are of the same topic, which then need not be looked at.
    """
    numbers = np.fromiter(map(Message.partition, messages), np.int32, len(messages))
    changes = numbers[1:] != numbers[:-1]
    if not one_topic:
        topics = list(map(Message.topic, messages))
        names = {name: index for index, name in enumerate(dict.fromkeys(topics))}
        indices = np.fromiter(map(names.__getitem__, topics), np.int32, len(topics))
        changes |= indices[1:] != indices[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(messages)]
    found: dict[Partition, list[Message]] = {}
    for start, end in pairwise(bounds):
        partition = Partition(messages[start].topic(), int(numbers[start]))
        found.setdefault(partition, []).extend(messages[start:end])
    return found


def offsets_of(messages: Sequence[Message]) -> NDArray[np.int64]:
    """Their offsets, ``(records,) int64``."""
    return np.fromiter(map(Message.offset, messages), np.int64, len(messages))


def unseen(offsets: NDArray[np.int64], position: int) -> NDArray[np.bool_] | None:
    """Which offsets are at or past the position and past all before them; None when all are.

    After a pause the client may go back and return records again.
    """
    if offsets[0] >= position and bool((offsets[1:] > offsets[:-1]).all()):
        return None
    newest = np.maximum.accumulate(np.concatenate(([position - 1], offsets[:-1])))
    return offsets > newest


def pieces(count: int, most: int) -> Iterator[slice]:
    """Index ranges of at most ``most`` that cover ``count`` records."""
    for start in range(0, count, most):
        yield slice(start, min(start + most, count))

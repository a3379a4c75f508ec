"""What a state holds, so that two can be compared: wherever in memory it stands."""

import numpy as np

from features.engine import PartitionState
from features.kernels.cells import DECAYED, NEWEST_FEW, cell_words
from features.kernels.fold import CELL_AT, CELL_SIZE, CELL_SORT, MAX_LATE, TTL
from features.kernels.slots import NEVER
from features.saving import SavedPart, Saving, Snapshot

_NEWEST = 0


def contents(state: PartitionState) -> dict[tuple[int, bytes], bytes]:
    """By feature set and key, the words of every key that an event to come may see."""
    snapshot = state.snapshot()
    return {
        (number, key): _told(state, number, words)
        for number, key, words, newest in records(snapshot)
        if not _has_expired(state, number, newest, snapshot.watermark)
    }


def _told(state: PartitionState, number: int, words: bytes) -> bytes:
    """The words without what cells that hold nothing, or few, held before: it is never read."""
    told = np.frombuffer(words, np.int64).copy()
    for cell in state.engine.compiled[number].tables.cells:
        at, sort = int(cell[CELL_AT]) // 8, int(cell[CELL_SORT])
        if sort <= DECAYED and told[at] == NEVER:
            told[at + 1 : at + cell_words(sort, 0)] = 0
        elif sort == NEWEST_FEW:
            told[at + 1 + 2 * told[at] : at + cell_words(sort, int(cell[CELL_SIZE]))] = 0
    return told.tobytes()


def finished(saving: Saving) -> list[SavedPart]:
    """The rest of a saving."""
    while not saving.is_done:
        saving.step(2)
    return saving.take()


def records(snapshot: Snapshot) -> list[tuple[int, bytes, bytes, int]]:
    """Of each key its feature set, its bytes, its words and its newest event time."""
    found = []
    for part in snapshot.parts:
        at = 0
        while at < len(part.records):
            words, length = part.records[at : at + 2].tolist()
            slot = at + 2 + (length + 7) // 8
            key = part.records[at + 2 : slot].tobytes()[:length]
            held = part.records[slot : at + words]
            found.append((part.number, key, held.tobytes(), int(held[_NEWEST])))
            at += words
        assert at == len(part.records)
    return found


def _has_expired(state: PartitionState, number: int, newest: int, watermark: int) -> bool:
    rules = state.engine.compiled[number].tables.rules
    return newest == NEVER or (rules[TTL] >= 0 and watermark - newest > rules[TTL] + rules[MAX_LATE])

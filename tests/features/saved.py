"""What a state holds, so that two can be compared: wherever in memory it stands."""

import numpy as np

from features.engine import PartitionState
from features.kernels.fold import MAX_LATE, TTL
from features.saving import SavedPart, Saving, Snapshot

_NEWEST = 0


def contents(state: PartitionState) -> dict[tuple[int, bytes], bytes]:
    """By feature set and key, the words of every key that an event to come may see."""
    snapshot = state.snapshot()
    return {
        (number, key): words
        for number, key, words, newest in records(snapshot)
        if not _has_expired(state, number, newest, snapshot.watermark)
    }


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
    never = np.iinfo(np.int64).min
    return newest == never or (rules[TTL] >= 0 and watermark - newest > rules[TTL] + rules[MAX_LATE])

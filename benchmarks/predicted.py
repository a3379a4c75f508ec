"""What a contender has published, read back after its run, and whether it is right."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.cluster import Cluster, Ends
from benchmarks.contender import Contender
from benchmarks.events import Scored
from features.errors import HeadraceError
from workers.log import LogReader

_RELATIVE, _ABSOLUTE = 1e-3, 1e-5
"""How far scores may differ: batches of other sizes and sums in another order change last bits."""


class WrongAnswers(HeadraceError):
    """A contender lost, repeated or miscalculated a prediction."""


class _Source(msgspec.Struct):
    offset: int


class _Seen(msgspec.Struct):
    source: _Source
    outputs: dict[str, float]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The predictions in one partition of a sink, the first of each event, in the order of the log.

    Args:
        offsets: ``(n,) int64`` where each prediction stands.
        sources: ``(n,) int64`` offset of its event, in the partition of the same number.
        scores: ``(n,) float64``.
        repeated: How many more there were, of the same events.
    """

    offsets: NDArray[np.int64]
    sources: NDArray[np.int64]
    scores: NDArray[np.float64]
    repeated: int

    def by_source(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Sources rising, and their scores."""
        order = np.argsort(self.sources)
        return self.sources[order], self.scores[order]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A contender's predictions by partition."""

    stretches: Mapping[int, Stretch]

    @property
    def repeated(self) -> int:
        """Predictions beyond the first of an event."""
        return sum(stretch.repeated for stretch in self.stretches.values())

    def visible(self, ends: Ends) -> int:
        """How many events had a prediction when the sink could be read up to these offsets."""
        return sum(
            int(np.searchsorted(stretch.offsets, ends[number])) for number, stretch in self.stretches.items()
        )

    def check(self, contender: Contender, due: Scored, like: "Predicted | None", *, all_of: bool) -> None:
        """Raise `WrongAnswers` unless every payment has its prediction, as often as promised, with the right score.

        Args:
            contender: Whose they are.
            due: What has to be scored.
            like: Whose scores they have to be.
            all_of: Whether all of it must have been; else what stands before the newest one scored.
        """
        if contender.is_exact and self.repeated:
            raise WrongAnswers(f"{contender.title}: {self.repeated} predictions came twice")
        for number, stretch in self.stretches.items():
            events, scores = stretch.by_source()
            newest = int(events[-1]) if len(events) else -1
            wanted = due[number] if all_of else due[number][: np.searchsorted(due[number], newest, "right")]
            if not np.array_equal(events, wanted):
                raise WrongAnswers(
                    f"{contender.title}: {len(events)} payments of partition {number} have a prediction, of {len(wanted)}; "
                    f"wrong offsets begin at {np.setxor1d(events, wanted)[0]}"
                )
            if like is not None:
                right = like.stretches[number].by_source()[1][: len(wanted)]
                _compare(contender, number, events, scores, right)


def _compare(
    contender: Contender,
    number: int,
    events: NDArray[np.int64],
    scores: NDArray[np.float64],
    right: NDArray[np.float64],
) -> None:
    wrong = ~np.isclose(scores, right, rtol=_RELATIVE, atol=_ABSOLUTE)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise WrongAnswers(
            f"{contender.title}: {int(wrong.sum())} scores of partition {number} differ from the hand-written loop's; "
            f"first at offset {events[first]}: {scores[first]} and {right[first]}"
        )


def read_predicted(cluster: Cluster, topic: str, begin: Ends, end: Ends) -> Predicted:
    """The predictions between two ends of a sink."""
    decoder = msgspec.json.Decoder(_Seen)
    found: dict[int, list[tuple[NDArray[np.int64], list[_Seen]]]] = {
        number: [] for number in range(len(begin))
    }
    ranges = {number: (begin[number], end[number]) for number in found}
    for number, records in LogReader(cluster.clients, topic).read(ranges):
        found[number].append((records.offsets, [decoder.decode(value or b"") for value in records.values]))
    return Predicted({number: _stretch(parts) for number, parts in found.items()})


def _stretch(parts: list[tuple[NDArray[np.int64], list[_Seen]]]) -> Stretch:
    offsets = np.concatenate([np.empty(0, np.int64), *(part for part, _ in parts)])
    seen = [each for _, part in parts for each in part]
    sources = np.array([each.source.offset for each in seen], np.int64)
    scores = np.array([each.outputs["score"] for each in seen], np.float64)
    _, first = np.unique(sources, return_index=True)
    first.sort()
    return Stretch(offsets[first], sources[first], scores[first], len(sources) - len(first))

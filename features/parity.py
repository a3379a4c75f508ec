"""Parity: the rows computed online equal those recomputed from the log, bit for bit."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from features.engine import Engine
from features.mismatch import (
    Mismatch,
    PublishedRow,
    RecomputedRow,
    Slices,
    differences,
    explain,
    recomputed_rows,
)

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigests:
    """Digests of rows by the position of their records.

    Args:
        partitions: ``(r,) int64``.
        offsets: ``(r,) int64``.
        digests: ``(r,) uint64``.
    """

    partitions: Int64s
    offsets: Int64s
    digests: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def join(cls, parts: Sequence["RowDigests"]) -> "RowDigests":
        """All of them."""
        return cls(
            partitions=np.concatenate([np.empty(0, np.int64), *(part.partitions for part in parts)]),
            offsets=np.concatenate([np.empty(0, np.int64), *(part.offsets for part in parts)]),
            digests=np.concatenate([np.empty(0, np.uint64), *(part.digests for part in parts)]),
        )

    def positions(self) -> NDArray[np.void]:
        """``(r,)`` pairs (partition, offset), sortable."""
        pairs = np.empty(len(self), [("partition", np.int64), ("offset", np.int64)])
        pairs["partition"], pairs["offset"] = self.partitions, self.offsets
        return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureParity:
    """One feature's part in a comparison.

    Args:
        rows: Rows whose values both sides are known: those of equal digests, and those that were logged.
        mismatches: Of them, those in which it differs.
    """

    rows: int
    mismatches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityReport:
    """What a comparison of online rows with recomputed ones found.

    Args:
        rows: Rows that both sides have.
        mismatched: (partition, offset) of those whose bits differ.
        missing: Of recomputed rows that were not published.
        refused: Of recomputed rows whose record is a dead letter: the model gave nothing that could be published.
        extra: Of published rows that were not recomputed.
        repeated: How many published rows came again with the same bits.
        contradicting: (partition, offset) of rows that were published twice with different bits, or with values that
            are not those of their digest.
        features: By column of either side.
        first: The first row that differs, one whose online values are known if there is any.
    """

    rows: int
    mismatched: tuple[tuple[int, int], ...]
    missing: tuple[tuple[int, int], ...]
    extra: tuple[tuple[int, int], ...]
    repeated: int
    contradicting: tuple[tuple[int, int], ...]
    refused: tuple[tuple[int, int], ...] = ()
    features: Mapping[str, FeatureParity] = field(default_factory=dict)
    first: Mismatch | None = None

    @property
    def differing(self) -> tuple[tuple[int, int], ...]:
        """(partition, offset) of every row of which one side says something else."""
        return tuple(sorted({*self.mismatched, *self.contradicting}))

    @property
    def holds(self) -> bool:
        """Whether every row is there and equal."""
        return not (self.mismatched or self.missing or self.extra or self.contradicting)

    def without(self, dead_letters: Collection[tuple[int, int]]) -> "ParityReport":
        """The same, with missing rows at these positions accounted for."""
        return replace(
            self,
            missing=tuple(position for position in self.missing if position not in dead_letters),
            refused=tuple(position for position in self.missing if position in dead_letters),
        )


def explained(
    report: ParityReport,
    engine: Engine,
    slices: Slices,
    published: Mapping[tuple[int, int], Sequence[PublishedRow]],
) -> ParityReport:
    """The same report, with what each feature has to do with it and the first row that differs.

    Args:
        report: Of the comparison.
        engine: Recomputes the rows.
        slices: The recorded stream.
        published: What was published, once or more, of the rows that differ.
    """
    counts = Counter(dict.fromkeys((*engine.float_columns, *engine.category_columns), 0))
    first: tuple[tuple[bool, int, int], RecomputedRow, PublishedRow] | None = None
    unknown = set(report.mismatched)
    for row in recomputed_rows(slices, published) if published else ():
        theirs, differing = _worst(engine, row, published[row.partition, row.offset])
        if theirs.features is not None:
            counts.update(differing)
            unknown.discard((row.partition, row.offset))
        rank = theirs.features is None, row.partition, row.offset
        if first is None or rank < first[0]:
            first = rank, row, theirs
    return replace(
        report,
        features={
            name: FeatureParity(rows=report.rows - len(unknown), mismatches=count)
            for name, count in counts.items()
        },
        first=None if first is None else explain(engine, slices, *first[1:]),
    )


def _worst(
    engine: Engine, row: RecomputedRow, published: Sequence[PublishedRow]
) -> tuple[PublishedRow, list[str]]:
    """Of what was published of one row, what is furthest from it, and the columns in which it is."""
    found = []
    for each in published:
        differing = [] if each.features is None else differences(engine, row, each.features)
        found.append((each, [one.column for one in differing]))
    return max(
        found, key=lambda pair: (pair[0].features is not None, len(pair[1]), pair[0].digest != row.digest)
    )


def compare(published: RowDigests, recomputed: RowDigests) -> ParityReport:
    """Compare what was published with what the log gives; of a repeated row the first counts."""
    places, first, where = np.unique(published.positions(), return_index=True, return_inverse=True)
    digests = published.digests[first]
    contradicting = np.unique(where[published.digests != digests[where]])
    wanted = recomputed.positions()
    order = np.argsort(wanted)
    _, online, offline = np.intersect1d(places, wanted[order], assume_unique=True, return_indices=True)
    differ = digests[online] != recomputed.digests[order][offline]
    return ParityReport(
        rows=len(online),
        mismatched=_pairs(places[online[differ]]),
        missing=_pairs(np.delete(wanted[order], offline)),
        extra=_pairs(np.delete(places, online)),
        repeated=len(published) - len(places),
        contradicting=_pairs(places[contradicting]),
    )


def _pairs(positions: NDArray[np.void]) -> tuple[tuple[int, int], ...]:
    return tuple((int(partition), int(offset)) for partition, offset in positions.tolist())

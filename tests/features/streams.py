"""Streams for property tests, and the way from events to rows."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from features.columns import Columns
from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.folder import Folder
from features.recorded import RecordedTable, in_log_order
from features.records import NO_TIMESTAMP, Records
from features.replay import Decoder, Replay, ReplayedSlice
from features.rows import Rows
from features.schema import EventTime, Field, Schema

Events = Sequence[Mapping[str, Any]]
STEPS = (0, 0, 1, 250, 999, 1000, 1700, 5000, 12_000, -500, -4_000, -15_000, -40_000, 90_000)
"""Milliseconds from one event to the next."""


def schema(max_late: timedelta = timedelta(seconds=20)) -> Schema:
    return Schema(
        fields=[
            Field(name="card", type=str, optional=True),
            Field(name="shop", type=str, optional=True),
            Field(name="ts", type=int),
            Field(name="amount", type=float, optional=True),
            Field(name="kind", type=str),
        ],
        key="card",
        time=EventTime(field="ts", max_late=max_late),
    )


def records(events: Events, first_offset: int = 0) -> Records:
    """The events as JSON records, keyed by card."""
    keys = [None if e.get("card") is None else str(e["card"]).encode() for e in events]
    return Records(
        values=[msgspec.json.encode({k: v for k, v in e.items() if v is not None}) for e in events],
        keys=keys,
        offsets=np.arange(first_offset, first_offset + len(events)),
        timestamps=np.full(len(events), NO_TIMESTAMP),
    )


def columns(schema: Schema, events: Events) -> Columns:
    decoded = RecordDecoder(schema).decode(records(events))
    assert not decoded.malformed
    return decoded.columns


def slices(events: Events, cuts: Sequence[int]) -> Iterator[Events]:
    edges = [0, *sorted({cut % (len(events) + 1) for cut in cuts}), len(events)]
    for start, end in itertools.pairwise(edges):
        yield events[start:end]


def process(
    engine: Engine, events: Events, cuts: Sequence[int] = (), state: PartitionState | None = None
) -> Rows:
    """Rows of the whole stream, decoded and folded slice by slice."""
    state = state or engine.new_partition()
    parts = [state.process(columns(engine.schema, part)) for part in slices(events, cuts)]
    return Rows(
        block=np.concatenate([rows.block for rows in parts]),
        ids=np.concatenate([rows.ids for rows in parts]),
        events=np.arange(sum(map(len, parts))),
    )


def replayed(
    engine: Engine, table: pa.Table, *, partitions: int = 1, folder: Folder | None = None
) -> list[ReplayedSlice]:
    """Recorded events, folded."""
    recorded = in_log_order(RecordedTable(table))
    needed = [field.name for field in engine.schema.fields]
    decoder = Decoder(engine.schema, recorded, needed, partitions)
    return list(Replay(engine, folder).fold(decoder.batches()))


@st.composite
def streams(draw: st.DrawFn, *, max_size: int = 60, cards: int = 3, scale: int = 1) -> list[dict[str, Any]]:
    """Mostly forward in time, with equal times, jumps ahead and back, null keys and missing values."""
    now, events = draw(st.sampled_from([1_700_000_000_000, -7_000, 0])), []
    for _ in range(draw(st.integers(0, max_size))):
        now += scale * draw(st.sampled_from(STEPS))
        events.append(
            {
                "card": draw(st.sampled_from([f"card-{i}" for i in range(cards)] + [None])),
                "shop": draw(st.sampled_from(["a", "bé", None])),
                "ts": now,
                "amount": draw(st.sampled_from([None, 0.0, -3.0, 1.0, 2.0, 1024.0, 7.5])),
                "kind": draw(st.sampled_from(["buy", "refund"])),
            }
        )
    return events

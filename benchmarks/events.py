"""The benchmark's events: those that the fraud pipeline makes up, and which of them are scored."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.recorded import Placer, RecordedTable
from pipelines.card_fraud import pipeline
from pipelines.datasets.card_payments import CARDS
from pipelines.datasets.card_payments_json import records

SEED = 7

Scored = Mapping[int, NDArray[np.int64]]
"""By partition, the offsets of the events that get a prediction, rising."""


def made_up(events: int, *, seed: int = SEED, cards: int = CARDS) -> pa.Table:
    """So many events of `pipelines.datasets.card_payments`, as the columns of `pipelines.example.RECORDS`."""
    return pa.concat_tables(records(events, seed, cards))


def payments_of(events: pa.Table) -> pa.Table:
    """The events without chargebacks."""
    return events.filter(_is_payment(events))


def scored_offsets(events: pa.Table) -> Scored:
    """Where the payments stand in a topic that held nothing before."""
    source = pipeline.source
    placer = Placer(events.schema, source.schema[source.schema.key], source.partitions)
    found: dict[int, list[NDArray[np.int64]]] = {}
    for batch in RecordedTable(events).batches(events.schema.names):
        partitions, offsets = placer.place(batch)
        is_due = _is_payment(batch).to_numpy(zero_copy_only=False)
        for number in np.unique(partitions).tolist():
            found.setdefault(number, []).append(offsets[is_due & (partitions == number)])
    return {number: np.concatenate(parts) for number, parts in found.items()}


def _is_payment(events: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
    return pc.invert(pc.starts_with(events["value"], '{"kind":"chargeback"'))

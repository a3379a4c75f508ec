"""The example of ``docs/features.md``, row by row."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from features.decode import RecordDecoder
from features.engine import Engine
from features.featureset import FeatureSet
from features.kinds import count, distinct, lag, last, max_
from features.records import NO_TIMESTAMP, Records
from features.schema import EventTime, Field, Schema
from features.windows import Window

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
MINUTE = timedelta(minutes=1)
WINDOW = Window(10 * MINUTE, MINUTE)
SCHEMA = Schema(
    fields=[
        Field(name="card", type=str, optional=True),
        Field(name="ts", type=int),
        Field(name="amount", type=float, optional=True),
    ],
    key="card",
    time=EventTime(field="ts", max_late=5 * MINUTE),
)
FEATURES = {
    "count": count(window=WINDOW),
    "max": max_("amount", window=WINDOW),
    "distinct": distinct("amount", window=WINDOW),
    "last": last("amount"),
    "lag 1": lag("amount", 1),
}


def rows() -> list[dict[str, str]]:
    lines = PAGE.read_text().split("### An example, event by event")[1].split("\n\n")[2].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(table[0], cells, strict=True)) for cells in table[2:]]


def milliseconds(clock: str, day: datetime) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return int(day.timestamp() + hours * 3600 + minutes * 60 + seconds) * 1000


@pytest.mark.parametrize("day", [datetime(2024, 2, 29, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_every_row_of_the_example_is_as_the_page_says(day: datetime, size: int) -> None:
    is_timed = day.timestamp() > 0  # no Kafka timestamp is before 1970
    written = [row for row in rows() if is_timed or row["count"] != ""]
    engine = Engine(SCHEMA, [FeatureSet(key="card", features=FEATURES)])
    decoder, state, found = RecordDecoder(SCHEMA), engine.new_partition(), dict[int, Any]()
    for start in range(0, len(written), size):
        part = written[start : start + size]
        events = [
            {"card": row["card"], "ts": milliseconds(row["event time"], day)}
            | ({} if row["amount"] == "-" else {"amount": float(row["amount"])})
            for row in part
        ]
        decoded = decoder.decode(
            Records(
                values=[msgspec.json.encode({k: v for k, v in e.items() if v != "-"}) for e in events],
                keys=[None if e["card"] == "-" else str(e["card"]).encode() for e in events],
                offsets=np.arange(start, start + len(part)),
                timestamps=np.full(len(part), milliseconds("12:21:30", day) if is_timed else NO_TIMESTAMP),
            )
        )
        well_formed = [start + i for i in range(len(part)) if i not in decoded.malformed]
        block = state.process(decoded.columns).block
        found.update(zip(well_formed, block.tolist(), strict=True))
    for number, row in enumerate(written):
        if row["count"] == "":
            assert number not in found
            continue
        expected = [math.nan if row[name] == "-" else float(row[name]) for name in FEATURES]
        np.testing.assert_array_equal(found[number], expected, err_msg=str(row))
    assert len(written) == 14 + is_timed

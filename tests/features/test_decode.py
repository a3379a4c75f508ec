from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.decode import RecordDecoder
from features.records import NO_TIMESTAMP, Records
from features.schema import EventTime, Field, FieldType, Schema, Unit

NOW = 1_700_000_000_000


def schema(key: FieldType = str, time: FieldType = int, unit: Unit = "ms") -> Schema:
    return Schema(
        fields=[Field(name="k", type=key, optional=True), Field(name="t", type=time)],
        key="k",
        time=EventTime(field="t", unit=unit),
    )


def records(*rows: tuple[bytes | None, bytes | None], timestamp: int = NO_TIMESTAMP) -> Records:
    return Records(
        keys=[key for key, _ in rows],
        values=[value for _, value in rows],
        offsets=np.arange(len(rows)),
        timestamps=np.full(len(rows), timestamp),
    )


def times(time: FieldType, unit: Unit, *written: str) -> list[int | str]:
    """Event times as decoded, or the reason why not."""
    rows = [(None, f'{{"t":{text}}}'.encode()) for text in written]
    decoded = RecordDecoder(schema(time=time, unit=unit)).decode(records(*rows))
    found: list[Any] = [
        decoded.malformed[i].reason if i in decoded.malformed else None for i in range(len(rows))
    ]
    for position, value in zip(decoded.columns.positions, decoded.columns.times, strict=True):
        found[position] = int(value)
    return found


def test_times_come_in_every_declared_unit() -> None:
    assert times(int, "s", "1700000000", "-1", "9223372036854775807") == [NOW, -1000, "unusable_time"]
    assert times(int, "ms", "0", "253402300800000") == [0, "unusable_time"]
    assert times(int, "us", "1700000000000999", "-1") == [NOW, -1]
    assert times(int, "ns", "1700000000000999999") == [NOW]
    assert times(float, "s", "1700000000.123", "1e300") == [NOW + 123, "unusable_time"]
    assert times(float, "ms", "12.5") == [12]
    assert times(str, "iso8601", '"2023-11-14T22:13:20Z"', '"yesterday"') == [NOW, "unusable_time"]


@given(
    moment=st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone comes as text
    digits=st.integers(0, 9),
    zone=st.sampled_from(["", "Z", "z", "+00:00", "-08:00", "+0530", "+14", "-23:59"]),
    between=st.sampled_from("Tt "),
)
def test_iso8601_is_read_as_pythons_datetime_reads_it(
    moment: datetime, digits: int, zone: str, between: str
) -> None:
    text = moment.strftime(f"%Y-%m-%d{between}%H:%M:%S").rjust(19, "0")
    if digits:
        text += "." + f"{moment.microsecond:06d}000"[:digits]
    expected = datetime.fromisoformat(text.replace("t", "T") + zone.upper())
    if expected.tzinfo is None:
        expected = expected.replace(tzinfo=UTC)
    millis = (expected - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert times(str, "iso8601", f'"{text}{zone}"') == [millis]


@pytest.mark.parametrize(
    "text",
    ["2023-02-29T00:00:00Z", "2023-13-01T00:00", "2023-1-01T00:00", "2023-01-01T24:00", "2023-01-01T00:00:60", "2023-01-01",
     "2023-01-01T00:00:00.", "2023-01-01T00:00:00+1", "2023-01-01T00:00:00 Z", "2023-01-01T00:00:00+24:00", "", "x" * 40],
)  # fmt: skip
def test_what_is_no_time_is_malformed(text: str) -> None:
    assert times(str, "iso8601", f'"{text}"') == ["unusable_time"]


def test_an_event_too_far_past_its_kafka_timestamp_is_malformed() -> None:
    hour = 3_600_000
    rows = [(None, f'{{"t":{NOW + ahead}}}'.encode()) for ahead in (-hour * 9000, hour, hour + 1)]
    decoded = RecordDecoder(schema()).decode(records(*rows, timestamp=NOW))
    assert decoded.columns.positions.tolist() == [0, 1]
    assert str(decoded.malformed[2]) == (
        "time_ahead: 't' is 3600.001 s past the record's Kafka timestamp; max_ahead is 1:00:00"
    )


def test_a_kafka_key_that_is_not_the_keys_value_is_malformed() -> None:
    decoded = RecordDecoder(schema()).decode(
        records(
            (b"JFK", b'{"k":"JFK","t":1}'),
            (None, b'{"t":1}'),
            (b"LGA", b'{"k":"JFK","t":1}'),
            (None, b'{"k":"JFK","t":1}'),
            (b"JFK", b'{"t":1}'),
            ("größe".encode(), '{"k":"größe","t":1}'.encode()),
        )
    )
    assert decoded.columns.positions.tolist() == [0, 1, 5]
    assert {row: malformed.reason for row, malformed in decoded.malformed.items()} == dict.fromkeys(
        (2, 3, 4), "key_mismatch"
    )


@given(number=st.integers(-(2**63), 2**63 - 1), key=st.text("-0123456789", max_size=20))
def test_an_integer_key_is_its_decimal(number: int, key: str) -> None:
    value = f'{{"k":{number},"t":1}}'.encode()
    decoded = RecordDecoder(schema(key=int)).decode(
        records((str(number).encode(), value), (key.encode(), value))
    )
    assert 0 not in decoded.malformed
    assert (1 in decoded.malformed) == (key != str(number))


def test_key_and_time_may_be_nested() -> None:
    nested = Schema(
        fields=[
            Field(name="k", type=int, path="cards[0].id", quoted=True),
            Field(name="t", type=str, path="meta.at"),
        ],
        key="k",
        time=EventTime(field="t", unit="iso8601"),
    )
    value = b'{"cards":[{"id":"17"}],"meta":{"at":"2023-11-14T22:13:20Z","u":[]}}'
    decoded = RecordDecoder(nested).decode(records((b"17", value), (b"18", value), (b"17", b'{"cards":[]}')))
    assert decoded.columns.times.tolist() == [NOW]
    assert {row: malformed.reason for row, malformed in decoded.malformed.items()} == {
        1: "key_mismatch",
        2: "missing_field",
    }

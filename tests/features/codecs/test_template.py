"""What is written is JSON, and reads back as what it was."""

import json
import math
import struct
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from features.codecs.template import JsonTemplate, Slot
from features.columns import Columns
from features.kernels.emit import INTEGER, NUMBER, OFFSET, TEXT, TIME
from features.rows import Rows
from features.schema import EventTime, Field, Schema

SCHEMA = Schema(
    fields=[Field(name="k", type=int, optional=True), Field(name="t", type=int), Field(name="s", type=str, optional=True)],
    key="k",
    time=EventTime(field="t"),
)  # fmt: skip
EVENT = JsonTemplate(
    [b'{"time":', Slot(TIME), b',"k":', Slot(INTEGER, 0), b',"offset":', Slot(OFFSET), b"}"],
    [b'{"s":', Slot(TEXT, 2), b',"x":', Slot(NUMBER, 0), b"}"],
)
int64s = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    [-(2**63), 2**63 - 1, 0, -1, -9, -10, 9, 10, 10**18, -(10**18)]
)
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    '\x00\x1f"\\/\b\n\x7f\u2028\U0001f600é', max_size=40
)


def written(
    rows: list[tuple[int, int | None, int, str | None, float]],
) -> list[tuple[bytes | None, bytes | None]]:
    """Time, key, offset, text and number of each event, by the template."""
    n = len(rows)
    encoded = [(text or "").encode() for *_, text, _ in rows]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    refs = [((int(end) - len(text)) << 24) | len(text) for end, text in zip(ends, encoded, strict=True)]
    numbers = np.array([row[4] for row in rows], np.float32).reshape(n, 1)
    columns = Columns(
        schema=SCHEMA,
        buffer=np.frombuffer(b"".join(encoded) + bytes(16), np.uint8),
        words=np.array([[row[1] or 0 for row in rows], [row[0] for row in rows], refs], np.int64),
        valid=np.array([[row[1] is not None for row in rows], [True] * n, [row[3] is not None for row in rows]], np.uint8),
        times=np.array([row[0] for row in rows], np.int64),
        positions=np.arange(n),
    )  # fmt: skip
    block = Rows(block=numbers, ids=np.zeros((n, 0), np.int64), events=np.arange(n))
    offsets = np.array([row[2] for row in rows], np.int64)
    return list(zip(*EVENT.write(columns, block, offsets, numbers), strict=True))


@given(
    rows=st.lists(
        st.tuples(int64s, st.none() | int64s, int64s, st.none() | texts, st.floats(width=32)),
        min_size=1,
        max_size=8,
    )
)
def test_every_text_integer_and_number_reads_back(
    rows: list[tuple[int, int | None, int, str | None, float]],
) -> None:
    for (time, key, offset, text, number), (first, second) in zip(rows, written(rows), strict=True):
        assert first is not None
        assert second is not None
        for read in (json.loads, msgspec.json.decode):
            assert read(first) == {"time": time, "k": key, "offset": offset}
            if not math.isfinite(number) or (number != 0 and not 1e-10 <= abs(number) < 1e15):
                assert second == b""
                continue
            again: Any = read(second)
            assert again["s"] == text
            assert np.float32(again["x"]) == np.float32(number)


def test_any_float32_is_written_with_the_fewest_digits_or_left_to_the_caller() -> None:
    bits = np.random.default_rng(5).integers(0, 2**32, 60_000, np.uint32)
    edges = [
        f for power in range(-12, 17) for f in struct.unpack("3f", struct.pack("3I", *_around(10.0**power)))
    ]
    numbers = np.concatenate([bits.view(np.float32), np.array(edges, np.float32)])
    left = 0
    for number, (_, text) in zip(
        numbers, written([(0, 0, 0, "", float(number)) for number in numbers]), strict=True
    ):
        if not text:
            left += 1
            assert not (math.isfinite(number) and 1e-10 <= abs(float(number)) < 1e15)
            continue
        digits = text.split(b'"x":')[1].rstrip(b"}").decode()
        assert np.float32(digits).tobytes() == (number + np.float32(0)).tobytes()
        shortest = np.format_float_scientific(number, unique=True).partition("e")[0]
        assert _significant(digits) == _significant(shortest), digits
    assert 0 < left < len(numbers)


def _around(value: float) -> tuple[int, int, int]:
    """Bits of the float32 nearest to a value, and of its neighbours."""
    (bits,) = struct.unpack("I", struct.pack("f", value))
    return bits - 1, bits, bits + 1


def _significant(digits: str) -> str:
    return digits.strip("-").replace(".", "").strip("0")

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.logged import logged_bits
from features.rows import Rows
from tests.features import streams
from workers.predictions import LoggedFeatures, Prediction, PredictionEncoder, PredictionForm, RecordPosition

FORM = PredictionForm(
    pipeline="fraud",
    topic="cards",
    model="mlp",
    version="7",
    key="card",
    label_key="shop",
    outputs={"risk": 0, "parts": 2},
)
texts = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(['quote"', "back\\slash", "tab\tnewline\n", "größe", "\x00\x1f"]),
)
float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)


def encode(cards: list[str | None], shops: list[str | None], numbers: NDArray[np.float32]) -> Any:
    events = [
        {"card": c, "shop": s, "ts": i - 5, "kind": "x"}
        for i, (c, s) in enumerate(zip(cards, shops, strict=True))
    ]
    n = len(events)
    rows = Rows(block=numbers, ids=np.arange(n).reshape(n, 1), events=np.arange(n))
    outputs = {"risk": numbers[:, 0], "parts": numbers[:, 1:]}
    encoded = PredictionEncoder(FORM).encode(
        3, np.arange(n) + 40, streams.columns(streams.schema(), events), rows, outputs
    )
    return encoded, rows


@given(data=st.lists(st.tuples(texts, texts, float32s, float32s, float32s), min_size=1, max_size=5))
def test_a_prediction_reads_back_as_what_was_predicted(data: list[Any]) -> None:
    numbers = np.array([row[2:] for row in data], np.float32)
    encoded, rows = encode([row[0] for row in data], [row[1] for row in data], numbers)
    assert not encoded.failed
    for i, (card, shop, *_) in enumerate(data):
        assert encoded.event_times[i] == str(i - 5).encode()
        prediction = msgspec.json.decode(encoded.values[i], type=Prediction)
        risk, parts = prediction.outputs["risk"], prediction.outputs["parts"]
        assert isinstance(risk, float)
        assert np.float32(risk) == numbers[i, 0]
        assert np.array_equal(np.array(parts, np.float32), numbers[i, 1:])
        assert msgspec.structs.replace(prediction, outputs={}) == Prediction(
            id=f"cards:3:{40 + i}:fraud",
            key=card,
            event_time=i - 5,
            pipeline="fraud",
            model="mlp",
            model_version="7",
            outputs={},
            features_digest=f"{rows.digests()[i]:016x}",
            label_key=shop,
            source=RecordPosition(topic="cards", partition=3, offset=40 + i),
            degraded=None,
        )


@given(numbers=st.lists(float32s, min_size=1, max_size=30))
def test_a_number_is_written_with_the_fewest_digits_that_read_back(numbers: list[float]) -> None:
    block = np.array(numbers, np.float32).repeat(3).reshape(-1, 3)
    encoded, _ = encode(["c"] * len(numbers), ["s"] * len(numbers), block)
    for i, number in enumerate(block[:, 0]):
        written = encoded.values[i].split(b'"risk":')[1].split(b",")[0].decode()
        shortest = (
            np.format_float_scientific(number, unique=True)
            .partition("e")[0]
            .strip("-")
            .replace(".", "")
            .strip("0")
        )
        assert written.partition("e")[0].strip("-").replace(".", "").strip("0") == shortest


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_output_that_is_not_finite_fails_alone(bad: float) -> None:
    numbers = np.array([[0.5, 1, 2], [bad, 1, 2], [0.25, 1, bad]], np.float32)
    encoded, _ = encode(["a", "b", "c"], ["x"] * 3, numbers)
    assert sorted(encoded.failed) == [1, 2]
    assert encoded.failed[1].reason == "output_not_finite"
    assert "'risk'" in encoded.failed[1].detail
    assert msgspec.json.decode(encoded.values[0])["key"] == "a"


bits32 = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from(
        [0, 0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x7F7FFFFF, 0x2EDBE6FF]
    ),
    st.floats(width=32).map(lambda number: int(np.float32(number).view(np.uint32))),
)
COLUMNS = LoggedFeatures(floats=("a", 'b"\\'), categories=("c",), share=1)


def logged(
    cards: list[str | None],
    block: NDArray[np.float32],
    ids: NDArray[np.int64],
    share: float,
    output: float = 0.5,
) -> tuple[Rows, list[Prediction]]:
    events = [{"card": card, "shop": "s", "ts": 0, "kind": "x"} for card in cards]
    n = len(events)
    rows = Rows(block=block, ids=ids, events=np.arange(n))
    numbers = np.full(n, output, np.float32)
    form = dataclasses.replace(FORM, outputs={"risk": 0}, logged=dataclasses.replace(COLUMNS, share=share))
    encoded = PredictionEncoder(form).encode(
        3, np.arange(n), streams.columns(streams.schema(), events), rows, {"risk": numbers}
    )
    assert not encoded.failed
    return rows, [msgspec.json.decode(value or b"", type=Prediction) for value in encoded.values]


@given(
    data=st.lists(st.tuples(bits32, bits32, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6),
    output=st.sampled_from([0.5, 1e-20]),
)
def test_logged_features_read_back_to_the_bit(data: list[tuple[int, int, int]], output: float) -> None:
    block = np.array([row[:2] for row in data], np.uint32).view(np.float32)
    ids = np.array([row[2:] for row in data], np.int64)
    _, predictions = logged(["card"] * len(data), block, ids, 1, output)
    for prediction, (a, b, c) in zip(predictions, data, strict=True):
        assert prediction.features is not None
        assert list(prediction.features) == ["a", 'b"\\', "c"]
        found = [logged_bits(value) for value in list(prediction.features.values())[:2]]
        assert found == [a, b]
        assert prediction.features["c"] == c


def test_logged_features_are_plain_numbers_where_they_can_be() -> None:
    block = np.array([[0.1, np.nan], [np.inf, -0.0]], np.float32)
    _, (first, second) = logged(["x", "y"], block, np.zeros((2, 1), np.int64), 1)
    assert first.features == {"a": 0.1, 'b"\\': None, "c": 0}
    assert second.features == {"a": "0x7f800000", 'b"\\': "0x80000000", "c": 0}


@pytest.mark.parametrize("output", [0.5, 1e-20])
def test_a_key_is_in_the_sample_by_its_hash(output: float) -> None:
    cards = [f"card-{i}" for i in range(2000)] * 2
    block, ids = np.zeros((4000, 2), np.float32), np.zeros((4000, 1), np.int64)
    _, predictions = logged([*cards[:-1], None], block, ids, 0.25, output)
    chosen = [prediction.features is not None for prediction in predictions]
    assert chosen[:1999] == chosen[2000:3999]
    wanted = [xxhash.xxh64_intdigest((card or "").encode()) < 2**62 for card in [*cards[:-1], None]]
    assert chosen == wanted
    assert 0.2 < np.mean(chosen) < 0.3

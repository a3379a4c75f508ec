import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.rows import Rows
from tests.features import streams
from workers.predictions import Prediction, PredictionEncoder, PredictionForm, RecordPosition

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

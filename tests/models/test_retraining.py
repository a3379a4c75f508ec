"""Retraining learns another vocabulary: neither state nor rows know of it, and versions with permuted ones agree."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.decode import RecordDecoder
from features.kernels.hashing import xxh64_of
from features.records import NO_TIMESTAMP, Records
from features.rows import Rows
from models.loading import load_model
from models.microbatch import BatchRule
from models.registry import ModelRef, Registry
from models.vocabulary import FIRST_KNOWN
from tests.models import shop
from tests.models.onnx_files import FLOAT, INT64, info, model, node

SHOPS = [f"shop-{i}" for i in range(40)]
KNOWN = 30
"""The other shops and one city came after the training."""
WIDTH = 3
SMALL = BatchRule(max_rows=64)


def id_of(text: str) -> int:
    return int(np.uint64(xxh64_of(text.encode())).astype(np.int64))


def network(tables: dict[str, NDArray[np.float32]], weights: NDArray[np.float32]) -> bytes:
    """A sigmoid over the floats and an embedding of each category."""
    nodes = [
        node("IsNaN", ["block"], ["missing"]),
        node("Where", ["missing", "zero", "block"], ["known"]),
        node("Split", ["codes"], ["shop", "city"], axis=1, num_outputs=2),
        node("Squeeze", ["shop", "last"], ["shop_code"]),
        node("Squeeze", ["city", "last"], ["city_code"]),
        node("Gather", ["shops", "shop_code"], ["shop_vector"]),
        node("Gather", ["cities", "city_code"], ["city_vector"]),
        node("Concat", ["known", "shop_vector", "city_vector"], ["all"], axis=1),
        node("MatMul", ["all", "weights"], ["logit"]),
        node("Sigmoid", ["logit"], ["score"]),
    ]
    return model(
        nodes,
        [info("block", FLOAT, "rows", 3), info("codes", INT64, "rows", 2)],
        [info("score", FLOAT, "rows", 1)],
        zero=np.array(0, np.float32),
        last=np.array([1]),
        shops=tables["shop"],
        cities=tables["city"],
        weights=weights,
    )


IDS = {"shop": tuple(map(id_of, SHOPS[:KNOWN])), "city": tuple(map(id_of, ["oslo", "bergen", "tromsø"]))}
GENERATOR = np.random.default_rng(5)
TABLES = {
    name: GENERATOR.standard_normal((len(ids) + FIRST_KNOWN, WIDTH)).astype(np.float32)
    for name, ids in IDS.items()
}
WEIGHTS = GENERATOR.standard_normal((3 + 2 * WIDTH, 1)).astype(np.float32)
Orders = dict[str, list[int]]


def permuted(orders: Orders, *, with_weights: bool) -> tuple[bytes, dict[str, tuple[int, ...]]]:
    """The network and its vocabularies with the known ids in another order; its embeddings too if asked."""
    vocabularies = {name: tuple(IDS[name][place] for place in order) for name, order in orders.items()}
    rows = {name: [0, 1, *(FIRST_KNOWN + place for place in order)] for name, order in orders.items()}
    tables = {name: TABLES[name][rows[name]] if with_weights else TABLES[name] for name in orders}
    return network(tables, WEIGHTS), vocabularies


def rows_of_a_stream() -> Rows:
    """Rows as the engine computes them: shops and cities known, unknown and missing."""
    generator = np.random.default_rng(1)
    values, keys = [], []
    for i in range(300):
        event = {"card": f"card-{i % 7}", "ts": 1000 * i, "amount": float(i % 13)}
        event |= {"shop": str(generator.choice(SHOPS))} if i % 9 else {}
        event |= {"city": str(generator.choice(["oslo", "bergen", "tromsø", "new"]))} if i % 5 else {}
        values.append(msgspec.json.encode(event))
        keys.append(str(event["card"]).encode())
    records = Records(values=values, keys=keys, offsets=np.arange(300), timestamps=np.full(300, NO_TIMESTAMP))
    engine = shop.engine()
    return engine.new_partition().process(RecordDecoder(engine.schema).decode(records).columns)


ROWS = rows_of_a_stream()


def scores(place: Path, *versions: tuple[bytes, dict[str, tuple[int, ...]]]) -> list[bytes]:
    """The bits that each version, registered one after the other, predicts of the same rows."""
    registry, engine = Registry.at(str(place)), shop.engine()
    fingerprints = engine.state_fingerprint, engine.column_fingerprint
    found = []
    for file, vocabularies in versions:
        ref = registry.register(file, shop.manifest(file, outputs=[shop.score(1)], vocabularies=vocabularies))
        loaded = load_model(registry, ModelRef(name=ref.name, version=ref.version), engine, SMALL)
        loaded.warm()
        assert loaded.manifest.column_fingerprint == engine.column_fingerprint
        found.append(loaded.predict(ROWS.block, ROWS.ids)["score"].tobytes())
        loaded.close()
    assert (engine.state_fingerprint, engine.column_fingerprint) == fingerprints
    return found


PLAIN: Orders = {name: list(range(len(ids))) for name, ids in IDS.items()}
orders = st.fixed_dictionaries({name: st.permutations(order) for name, order in PLAIN.items()})


@given(order=orders)
def test_a_live_and_a_canary_model_with_permuted_vocabularies_predict_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, order: Orders
) -> None:
    live, canary = permuted(PLAIN, with_weights=True), permuted(order, with_weights=True)
    first, second = scores(tmp_path_factory.mktemp("registry"), live, canary)
    assert first == second


def test_a_vocabulary_permuted_without_its_weights_predicts_something_else(tmp_path: Path) -> None:
    turned = {name: order[::-1] for name, order in PLAIN.items()}
    first, second = scores(tmp_path, permuted(PLAIN, with_weights=True), permuted(turned, with_weights=False))
    assert first != second


def test_the_rows_have_known_unknown_and_missing_ids() -> None:
    for column, name in enumerate(IDS):
        known = np.isin(ROWS.ids[:, column], IDS[name])
        assert 0.3 < known.mean() < 0.95
        assert len(np.unique(ROWS.ids[~known, column])) > 1

import hashlib
import itertools
from collections import Counter
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from features.decode import RecordDecoder
from features.records import Records
from pipelines.card_fraud import pipeline, schema
from pipelines.datasets.card_payments_json import records
from pipelines.datasets.clocks import DAY, HOUR, MINUTE
from pipelines.example import RECORDS

CARDS = 2000


def made(events: int, seed: int, cards: int = CARDS) -> pa.Table:
    return pa.concat_tables(records(events, seed, cards))


@cache
def stream() -> pa.Table:
    """Two weeks of 2,000 cards."""
    return made(100_000, 5)


@cache
def decoded() -> list[dict[str, Any]]:
    return [msgspec.json.decode(value) for value in stream()["value"].to_pylist()]


@cache
def payments() -> dict[str, dict[str, Any]]:
    return {event["payment_id"]: event for event in decoded() if event["kind"] == "payment"}


@cache
def chargebacks() -> dict[str, dict[str, Any]]:
    return {event["payment_id"]: event for event in decoded() if event["kind"] == "chargeback"}


@cache
def frauds() -> list[dict[str, Any]]:
    return [payments()[name] for name in chargebacks()]


def digest(table: pa.Table) -> str:
    found = hashlib.sha256()
    for column in ("key", "value"):
        for each in table[column].to_pylist():
            found.update(each + b"\n")
    found.update(table["time"].to_numpy().tobytes())
    return found.hexdigest()


def test_a_seed_makes_the_same_bytes_on_every_machine() -> None:
    assert (
        digest(made(200_000, 7, 20_000)) == "a44b83bde472ccbe218b21ebf682e33084c547b0f60eb290cdbfbda0e96dfb89"
    )


def test_another_seed_makes_other_events() -> None:
    assert not made(500, 3).equals(made(500, 4))


@pytest.mark.parametrize("events", [1, 1000, 7001, 70_000])
def test_the_first_events_of_many_are_those_of_few(events: int) -> None:
    few = made(events, 5)
    assert len(few) == events
    assert few.combine_chunks().equals(stream().slice(0, events).combine_chunks())


def test_a_long_stream_comes_in_tables_of_some_thousand_events() -> None:
    first = list(itertools.islice(records(50_000_000, 7), 3))
    assert all(table.schema == RECORDS and 0 < len(table) <= 65_536 for table in first)


def test_every_record_is_well_formed_and_keyed_by_its_card() -> None:
    table = stream()
    found = RecordDecoder(schema).decode(
        Records(
            values=table["value"].to_pylist(),
            keys=table["key"].to_pylist(),
            offsets=np.arange(len(table)),
            timestamps=table["time"].to_numpy(),
        )
    )
    assert not found.malformed
    assert found.columns.times.tolist() == table["time"].to_pylist()


def test_records_have_the_size_and_the_spacing_of_two_gateways() -> None:
    values = stream()["value"].to_pylist()
    assert 195 < np.mean([len(value) for value in values]) < 220
    spaced = sum(b'": "' in value for value in values) / len(values)
    online = sum(event.get("online", False) for event in decoded()) / len(values)
    assert spaced == online
    assert 0.25 < online < 0.5


def test_payments_have_names_of_their_own() -> None:
    assert len(payments()) + len(chargebacks()) == len(decoded())


def test_order_is_that_of_arrival_a_few_seconds_after_the_event() -> None:
    times = stream()["time"].to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0.005 < (behind > 0).mean() < 0.2
    assert behind.max() < 7000


def test_a_chargeback_comes_an_hour_to_four_days_after_its_payment() -> None:
    delays = np.array([each["ts"] - payments()[name]["ts"] for name, each in chargebacks().items()])
    assert delays.min() >= HOUR
    assert delays.max() <= 4 * DAY
    assert 6 * HOUR < np.median(delays) < 2 * DAY
    assert all(each["card"] == payments()[name]["card"] for name, each in chargebacks().items())


def test_less_than_a_hundredth_of_the_payments_is_fraud() -> None:
    closed = [each for each in payments().values() if each["ts"] < decoded()[-1]["ts"] - 4 * DAY]
    share = sum(each["payment_id"] in chargebacks() for each in closed) / len(closed)
    assert 0.004 < share < 0.01


def test_a_ring_shares_its_devices_between_cards_and_nobody_else_does_online() -> None:
    cards: dict[str, set[str]] = {}
    for each in payments().values():
        if each["online"]:
            cards.setdefault(each["device"], set()).add(each["card"])
    of_rings = {each["device"] for each in frauds()}
    assert max(len(cards[device]) for device in of_rings) >= 5
    shared = {device for device, mine in cards.items() if len(mine) > 1}
    assert shared <= of_rings | devices_not_yet_charged_back()


def devices_not_yet_charged_back() -> set[str]:
    since = decoded()[-1]["ts"] - 5 * DAY
    return {each["device"] for each in payments().values() if each["online"] and each["ts"] > since}


def test_a_ring_tries_small_amounts_and_then_takes_large_ones_within_hours() -> None:
    attacks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in sorted(frauds(), key=lambda each: each["ts"]):
        attacks.setdefault((each["card"], each["country"]), []).append(each)
    whole = [attack for attack in attacks.values() if len(attack) >= 3]
    assert len(whole) > 20
    first, last = (np.median([attack[at]["amount"] for attack in whole]) for at in (0, -1))
    assert first < 5
    assert last > 40
    gaps = [b["ts"] - a["ts"] for attack in whole for a, b in itertools.pairwise(attack)]
    assert np.median(gaps) < 20 * MINUTE


def test_cards_differ_in_what_they_spend_and_when() -> None:
    amounts: dict[str, list[float]] = {}
    hours: dict[str, Counter[int]] = {}
    for each in payments().values():
        amounts.setdefault(each["card"], []).append(each["amount"])
        hours.setdefault(each["card"], Counter())[each["ts"] // HOUR % 24] += 1
    medians = [np.median(mine) for mine in amounts.values() if len(mine) > 40]
    assert np.percentile(medians, 90) > 2 * np.percentile(medians, 10)
    busiest = {counter.most_common(1)[0][0] for counter in hours.values() if counter.total() > 40}
    assert len(busiest) > 10
    asleep = [24 - len(counter) for counter in hours.values() if counter.total() > 80]
    assert np.median(asleep) >= 4


def test_the_pipelines_own_example_is_this_stream() -> None:
    assert pipeline.example is not None
    assert hasattr(pipeline.example, "make")
    assert next(iter(pipeline.example.make(50, 5))).equals(made(50, 5, 20_000))

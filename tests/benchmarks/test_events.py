import msgspec

from benchmarks.contenders.task import Chargeback, Payment
from benchmarks.events import made_up, payments_of, scored_offsets
from pipelines.card_fraud import pipeline
from pipelines.replay import replay


def test_the_events_that_are_due_are_those_that_headrace_scores() -> None:
    events = made_up(30_000, cards=500)
    rows = replay(pipeline, events)
    due = scored_offsets(events)
    scored = {number: part.tolist() for number, part in due.items()}
    found: dict[int, list[int]] = {}
    for number, offset in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
        found.setdefault(number, []).append(offset)
    assert found == scored
    assert len(payments_of(events)) == len(rows) < len(events)


def test_contenders_decode_every_event() -> None:
    decode = msgspec.json.Decoder(Payment | Chargeback).decode
    decoded = [decode(value) for value in made_up(30_000, cards=500)["value"].to_pylist()]
    assert {type(event) for event in decoded} == {Payment, Chargeback}


def test_events_are_spread_over_all_partitions() -> None:
    assert set(scored_offsets(made_up(1000))) == {0, 1, 2, 3}

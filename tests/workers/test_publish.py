"""``headrace publish`` of example events: recorded ones, and as many made-up ones as are asked for."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.card_fraud import pipeline
from pipelines.datasets.card_payments_json import records
from tests.workers.topics_seen import read_all
from workers.brokers import EmbeddedBroker
from workers.cli.publish import command, events_of
from workers.topics import Topics, topic_specs


def said(code: int, *arguments: str) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_as_many_made_up_events_as_are_asked_for_are_published() -> None:
    (made,) = records(1500, 3)
    with EmbeddedBroker() as broker:
        Topics({"bootstrap.servers": broker.bootstrap}).create(topic_specs(pipeline))
        assert "1500 events published to payments" in said(
            0, "card_fraud", "--events", "1500", "--seed", "3", "--bootstrap", broker.bootstrap
        )
        seen = read_all(broker.bootstrap, "payments", 4)
    assert sorted((message.key(), message.value()) for message in seen) == sorted(
        zip(made["key"].to_pylist(), made["value"].to_pylist(), strict=True)
    )


def test_a_long_stream_is_made_while_it_is_published() -> None:
    began = time.monotonic()
    count, tables = events_of(pipeline, None, 50_000_000, 7, None)
    assert count == 50_000_000
    assert len(next(iter(tables))) == 65_536
    assert time.monotonic() - began < 20


def test_without_options_it_is_the_declared_example_and_a_limit_is_its_beginning() -> None:
    count, tables = events_of(pipeline, None, None, None, 1200)
    assert count == 1200
    assert sum(map(len, tables)) == 1200
    assert events_of(pipeline, None, None, None, None)[0] == 1_500_000


@pytest.mark.parametrize("option", ["--events", "--seed"])
def test_recorded_examples_take_no_such_options(option: str, tmp_path: Path) -> None:
    output = said(2, "flights", option, "5")
    assert "pipeline 'flights' makes none up" in output
    assert "--limit" in output
    recorded = tmp_path / "events.jsonl"
    assert "--from gives recorded ones" in said(2, "card_fraud", option, "5", "--from", str(recorded))

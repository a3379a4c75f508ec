from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from features.errors import Misdeclared
from workers.transport.clients import consumer_settings, make_client, producer_settings
from workers.transport.outputs import OutputBatch
from workers.transport.settings import Guarantee, Limits, Timeouts, TransportSettings


def declared(**wishes: Any) -> TransportSettings:
    return TransportSettings(**{"bootstrap": "localhost:9092", "group": "g", **wishes})


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"bootstrap": ""}, "transport.bootstrap is empty"),
        ({"group": ""}, "transport.group is empty"),
        ({"slice_records": 0}, "transport.slice_records=0; needed: at least 1"),
        ({"commit_interval": timedelta(seconds=-1)}, "transport.commit_interval"),
        ({"guarantee": Guarantee.EXACTLY_ONCE}, "transport.transactional_id is missing"),
        ({"transactional_id": "x"}, "has no meaning with at_least_once"),
        ({"kafka": {"enable.auto.commit": True}}, "kafka.enable.auto.commit can't be set"),
        ({"kafka": {"consumer.isolation.level": "x"}}, "kafka.consumer.isolation.level can't be set"),
        ({"kafka": {"producer.acks": 1}}, "durable on all in-sync replicas"),
    ],
)
def test_what_breaks_a_promise_is_refused_by_name(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(Misdeclared, match=message):
        declared(**wishes)


def test_limits_and_timeouts_are_more_than_zero() -> None:
    with pytest.raises(Misdeclared, match=r"limits.open_bytes=0; needed: more than zero"):
        Limits(open_bytes=0)
    with pytest.raises(Misdeclared, match=r"timeouts.drain=0:00:00; needed: more than zero"):
        Timeouts(drain=timedelta(0))


def test_columns_of_an_output_batch_have_one_item_a_record() -> None:
    with pytest.raises(Misdeclared, match="2 values but 1 keys"):
        OutputBatch(topic="t", values=[b"a", b"b"], keys=[b"a"])
    assert len(OutputBatch(topic="t", values=[b"a", None])) == 2


def test_settings_of_one_client_reach_only_that_one() -> None:
    settings = declared(
        kafka={
            "security.protocol": "SSL",
            "linger.ms": 7,
            "session.timeout.ms": 9_000,
            "producer.client.id": "p",
        }
    )
    consumer, producer = consumer_settings(settings), producer_settings(settings)
    assert consumer["security.protocol"] == producer["security.protocol"] == "SSL"
    assert (producer["linger.ms"], producer["client.id"]) == (7, "p")
    assert consumer["session.timeout.ms"] == 9_000
    assert not {"linger.ms", "client.id", "producer.client.id"} & set(consumer)
    assert "session.timeout.ms" not in producer


def test_every_role_reads_committed_records_and_cooperates() -> None:
    for settings in (declared(), declared(guarantee=Guarantee.EXACTLY_ONCE, transactional_id="x")):
        consumer = consumer_settings(settings)
        assert consumer["isolation.level"] == "read_committed"
        assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    assert producer_settings(settings)["transactional.id"] == "x"


def test_the_new_group_protocol_leaves_session_and_assignor_to_the_broker() -> None:
    consumer = consumer_settings(declared(kafka={"group.protocol": "consumer"}))
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & set(
        consumer
    )


def test_a_setting_that_the_client_does_not_know_is_refused_by_name() -> None:
    settings = producer_settings(declared(kafka={"producer.no.such.thing": 1}))
    with pytest.raises(Misdeclared, match=r"no.such.thing"):
        make_client(Producer, settings, lambda: 0.0)

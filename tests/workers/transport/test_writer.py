"""The writer against the embedded broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, murmur2

from tests.workers.transport.cluster import Cluster, eventually
from workers.brokers import EmbeddedBroker
from workers.transport.clients import producer_settings
from workers.transport.outputs import OutputBatch
from workers.transport.settings import KafkaValue, TransportSettings
from workers.transport.shared import Shared
from workers.transport.stats import TransportStats
from workers.transport.writer import Writer

MakeWriter = Callable[..., Writer]


@pytest.fixture
def embedded(embedded_broker: EmbeddedBroker) -> Cluster:
    return Cluster(embedded_broker.bootstrap, session_ms=2_000)


@pytest.fixture
def make_writer(embedded: Cluster) -> MakeWriter:
    def make(bootstrap: str = embedded.bootstrap, **kafka: KafkaValue) -> Writer:
        named = {f"producer.{name.replace('_', '.')}": value for name, value in kafka.items()}
        settings = TransportSettings(bootstrap=bootstrap, group="g", kafka=named)
        writer = Writer(Shared(settings, lambda: 0.0, TransportStats()), producer_settings(settings), {})
        writer.start()
        return writer

    return make


def settle(writer: Writer) -> None:
    def is_settled() -> bool:
        writer.poll(0.01)
        return not writer.outstanding

    eventually(is_settled, within=20.0, what="nothing outstanding")


def test_a_full_queue_is_waited_for_and_nothing_is_repeated_or_reordered(
    embedded: Cluster, make_writer: MakeWriter
) -> None:
    topic = embedded.topic(1)
    values = [b"%d" % index for index in range(500)]
    writer = make_writer(queue_buffering_max_messages=7)
    writer.write(OutputBatch(topic=topic, values=values, keys=values, partition=0))
    writer.write(OutputBatch(topic=topic, values=tuple(values), partition=0))
    settle(writer)
    assert embedded.values(topic, 1) == [values + values]


def test_columns_arrive_as_records(embedded: Cluster, make_writer: MakeWriter) -> None:
    topic = embedded.topic(1)
    writer = make_writer()
    writer.write(
        OutputBatch(
            topic=topic, values=[b"a", None, b""], keys=[b"k", b"gone", None],
            headers=[[("h", b"1"), ("i", b"")], None, []], partition=0,
        )
    )  # fmt: skip
    settle(writer)
    found = [(record.key, record.value, record.headers) for record in embedded.read(topic, 1)[0]]
    assert found == [(b"k", b"a", [("h", b"1"), ("i", b"")]), (b"gone", None, None), (None, b"", None)]


def test_records_without_a_partition_go_where_java_clients_put_them(
    embedded: Cluster, make_writer: MakeWriter
) -> None:
    topic = embedded.topic(3)
    keys = [b"key %d" % index for index in range(60)]
    writer = make_writer()
    writer.write(OutputBatch(topic=topic, values=keys, keys=keys))
    settle(writer)
    assert embedded.values(topic) == [
        [key for key in keys if murmur2(key, 3) == number] for number in range(3)
    ]


def test_a_record_that_is_not_delivered_is_known(make_writer: MakeWriter) -> None:
    writer = make_writer("127.0.0.1:1", message_timeout_ms=500)
    writer.write(OutputBatch(topic="nowhere", values=[b"x"], partition=0))
    settle(writer)
    ((error, where),) = writer.failures
    assert where == "nowhere[0]"
    assert error.code() == KafkaError._MSG_TIMED_OUT

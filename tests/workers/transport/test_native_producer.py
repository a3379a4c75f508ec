"""The producer below the writer: what reaches Python from librdkafka, and that nothing of it is left behind."""

import gc
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.transport.cluster import eventually
from workers.transport.native.producer import ColumnProducer
from workers.transport.outputs import HeaderColumns, OutputBatch

LOG = logging.getLogger("test.producer")
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}

HEADERS = st.lists(
    st.none()
    | st.lists(
        st.tuples(
            st.text(max_size=4).filter(lambda name: "\0" not in name), st.none() | st.binary(max_size=4)
        ),
        max_size=3,
    ),
    max_size=9,
)


@given(HEADERS, st.integers(-9, 9), st.integers(-9, 9))
def test_headers_are_a_sequence_of_lists(
    headers: list[list[tuple[str, bytes | None]] | None], first: int, last: int
) -> None:
    columns = HeaderColumns.of(headers)
    expected = [each or None for each in headers]
    assert list(columns) == expected
    assert list(columns[first:last]) == expected[first:last]


def threads() -> int:
    return len(list(Path(f"/proc/{os.getpid()}/task").iterdir()))


def test_a_producer_that_nobody_holds_ends_its_threads() -> None:
    before = threads()
    producer = ColumnProducer(NOWHERE, LOG)
    producer.produce(OutputBatch(topic="t", values=[b"never sent"], partition=0))
    assert threads() > before
    del producer
    gc.collect()
    eventually(lambda: threads() <= before, within=10.0, what="the client's threads to end")


@pytest.mark.parametrize(
    ("name", "value"), [("no.such.setting", "1"), ("acks", "some"), ("queue.buffering.max.ms", -1)]
)
def test_a_wrong_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(KafkaException, match=name):
        ColumnProducer({**NOWHERE, name: value}, LOG)


def poll_until(producer: ColumnProducer, is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not is_done():
        assert time.monotonic() < until
        producer.poll(0.05)


def test_statistics_errors_and_logs_arrive(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    errors: list[KafkaError] = []
    settings = {**NOWHERE, "statistics.interval.ms": 50, "stats_cb": told.append, "error_cb": errors.append}
    producer = ColumnProducer(settings, LOG)
    with caplog.at_level(logging.INFO, LOG.name):
        poll_until(producer, lambda: bool(told and errors and caplog.records))
    assert json.loads(told[0])["type"] == "producer"
    assert errors[0].code() == KafkaError._TRANSPORT
    assert "127.0.0.1:1" in caplog.text


def test_what_a_callback_raises_the_poll_raises() -> None:
    def fail(error: KafkaError) -> None:
        raise KafkaException(error)

    producer = ColumnProducer({**NOWHERE, "error_cb": fail}, LOG)
    with pytest.raises(KafkaException, match=r"127\.0\.0\.1:1"):
        poll_until(producer, lambda: False)


def test_calls_without_a_transactional_id_are_refused() -> None:
    producer = ColumnProducer(NOWHERE, LOG)
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(1)
    assert refused.value.args[0].code() == KafkaError._NOT_CONFIGURED


def test_a_record_that_no_broker_takes_is_refused_at_once() -> None:
    producer = ColumnProducer({**NOWHERE, "message.max.bytes": 2000}, LOG)
    with pytest.raises(KafkaException) as refused:
        producer.produce(OutputBatch(topic="t", values=[b"x", b"x" * 3000], partition=0))
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

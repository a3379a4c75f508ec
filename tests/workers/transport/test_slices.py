import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from workers.transport.outputs import OutputBatch
from workers.transport.partitions import Partition
from workers.transport.progress import Span
from workers.transport.slices import Records, Slice

WHERE = Partition("t", 3)


def a_slice(finished: list[tuple[Span, list[OutputBatch]]]) -> Slice:
    messages = [
        Message(topic="t", partition=3, offset=7, key=b"k", value=b"v", headers=[("h", b"1")],
                timestamp=(TIMESTAMP_CREATE_TIME, 1000)),
        Message(topic="t", partition=3, offset=9, key=None, value=None,
                timestamp=(TIMESTAMP_LOG_APPEND_TIME, 2000)),
        Message(topic="t", partition=3, offset=10, value=b"w", timestamp=(TIMESTAMP_NOT_AVAILABLE, -1)),
    ]  # fmt: skip
    records = Records(WHERE, messages, np.array([7, 9, 10], np.int64))
    span = Span(partition=WHERE, first=7, end=11, records=3, size=1, shares=1)
    return Slice(records, span, lambda span, outputs: finished.append((span, list(outputs))))


def test_a_slice_is_columns() -> None:
    each = a_slice([])
    assert (len(each), each.partition, each.first_offset, each.next_offset) == (3, WHERE, 7, 11)
    assert each.offsets.tolist() == [7, 9, 10]
    assert each.keys == [b"k", None, None]
    assert each.values == [b"v", None, b"w"]
    assert each.headers == [[("h", b"1")], None, None]
    assert each.timestamps.tolist() == [1000, 2000, -1]
    assert each.offsets.dtype == each.timestamps.dtype == np.int64


def test_a_slice_can_be_done_once() -> None:
    finished: list[tuple[Span, list[OutputBatch]]] = []
    each = a_slice(finished)
    batch = OutputBatch(topic="out", values=[b"x"])
    each.done([batch])
    assert [outputs for _, outputs in finished] == [[batch]]
    with pytest.raises(RuntimeError, match=r"t\[3\] 7\.\.11> was done before"):
        each.done()

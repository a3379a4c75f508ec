from workers.transport.partitions import Partition
from workers.transport.pauses import Pauses, Reason

A, B = Partition("t", 0), Partition("t", 1)


def test_a_partition_is_paused_by_its_first_reason_and_resumed_by_its_last() -> None:
    pauses = Pauses()
    assert pauses.add([A], Reason.FULL) == [A]
    assert pauses.add([A, B], Reason.STALL) == [B]
    assert pauses.remove([A, B], Reason.STALL) == [B]
    assert A in pauses
    assert B not in pauses
    assert pauses.remove([A], Reason.FULL) == [A]
    assert A not in pauses


def test_what_is_not_paused_is_never_resumed() -> None:
    pauses = Pauses()
    pauses.add([A], Reason.FULL)
    assert pauses.remove([A, B], Reason.STALL) == []
    assert pauses.because(Reason.FULL) == [A]
    assert pauses.because(Reason.STALL) == []


def test_a_partition_that_leaves_is_resumed_if_it_is_paused() -> None:
    pauses = Pauses()
    pauses.add([A, B], Reason.FULL)
    pauses.remove([B], Reason.FULL)
    assert pauses.forget([A, B]) == [A]
    assert pauses.forget([A, B]) == []
    assert pauses.add([A], Reason.STALL) == [A]

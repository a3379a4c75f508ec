"""What the transport promises on any broker; each test runs on the embedded one and on Apache Kafka."""

from collections import Counter
from itertools import chain

from tests.workers.transport.cluster import Cluster, eventually
from tests.workers.transport.conftest import MakePlan
from tests.workers.transport.records import dealt, first_times, numbers
from tests.workers.transport.worker_process import WorkerProcess


def test_records_are_copied_once_in_order_and_a_restarted_worker_goes_on(
    cluster: Cluster, make_plan: MakePlan
) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.fill(source, numbers(0, 3000), headers=[("h", b"1")])
    plan = make_plan(cluster, {source: target})
    with WorkerProcess(plan) as worker:
        eventually(lambda: cluster.offsets(plan.group, source) == [1000] * 3, what="all committed")
        code, seconds = worker.terminate()
    assert (code, seconds < 5) == (0, True)
    assert cluster.values(target) == dealt(numbers(0, 3000))
    first = cluster.read(target)[0][0]
    assert (first.key, first.headers) == (b"0", [("h", b"1")])

    cluster.fill(source, numbers(3000, 3300))
    with WorkerProcess(plan) as worker:
        eventually(lambda: cluster.offsets(plan.group, source) == [1100] * 3, what="all committed")
        assert worker.terminate()[0] == 0
        starts = {tuple(event["partition"]): event["committed"] for event in worker.events("assign")}
    assert set(starts.values()) == {1000}
    assert cluster.values(target) == dealt(numbers(0, 3300))


def test_a_slow_agent_holds_reading_back_and_sigterm_drains_under_load(
    cluster: Cluster, make_plan: MakePlan
) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.fill(source, numbers(0, 900))
    plan = make_plan(
        cluster, {source: target}, slice_records=25, open_slices=2, seconds_a_slice=0.12, drain_seconds=2.0
    )
    with WorkerProcess(plan) as worker:
        worker.wait_for("slice", 12)
        code, seconds = worker.terminate()
        (stats,) = worker.events("stats")
    assert (code, seconds < 5) == (0, True)
    assert stats["stalls"] > 0
    assert stats["undrained"] == 0
    copied = cluster.values(target)
    assert 0 < sum(map(len, copied)) < 900
    assert cluster.offsets(plan.group, source) == [len(values) or -1 for values in copied]

    with WorkerProcess(make_plan(cluster, {source: target}, group=plan.group)) as worker:
        eventually(lambda: cluster.offsets(plan.group, source) == [300] * 3, what="all committed")
        assert worker.terminate()[0] == 0
    assert cluster.values(target) == dealt(numbers(0, 900))


def test_an_agent_that_raises_ends_the_process_and_nothing_is_skipped(
    cluster: Cluster, make_plan: MakePlan
) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.fill(source, numbers(0, 3000))
    plan = make_plan(cluster, {source: target}, slice_records=20, raise_at=(1, 450), seconds_a_slice=0.001)
    with WorkerProcess(plan) as worker:
        assert worker.ended() not in {0, -15}
        assert "this slice can't be worked on" in worker.log
    assert -1 <= cluster.offsets(plan.group, source)[1] <= 450
    assert (
        first_times(cluster.values(target)[1]) == dealt(numbers(0, 3000))[1][: len(cluster.values(target)[1])]
    )

    plan = make_plan(cluster, {source: target}, group=plan.group)
    with WorkerProcess(plan) as worker:
        eventually(lambda: cluster.offsets(plan.group, source) == [1000] * 3, what="all committed")
        assert worker.terminate()[0] == 0
    assert [first_times(values) for values in cluster.values(target)] == dealt(numbers(0, 3000))


def test_a_slice_that_is_never_done_ends_the_process(cluster: Cluster, make_plan: MakePlan) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.fill(source, numbers(0, 300))
    plan = make_plan(cluster, {source: target}, hang_at=(2, 0), stuck_seconds=4.0, drain_seconds=0.5)
    with WorkerProcess(plan) as worker:
        assert worker.ended() not in {0, -15}
        assert f"a slice of {source}[" in worker.log  # those of one poll are equally old
        assert "has been open for" in worker.log


def test_an_agent_that_blocks_the_event_loop_ends_the_process(cluster: Cluster, make_plan: MakePlan) -> None:
    source, target = cluster.topic(), cluster.topic()
    cluster.fill(source, numbers(0, 300))
    plan = make_plan(cluster, {source: target}, block_at=(2, 0), stuck_seconds=4.0, crash_seconds=0.5)
    with WorkerProcess(plan) as worker:
        assert worker.ended() == 1
        assert f"a slice of {source}[" in worker.log  # those of one poll are equally old
        assert "has been open for" in worker.log
        assert "the process ends now" in worker.log


def test_every_agent_of_every_topic_sees_each_slice(cluster: Cluster, make_plan: MakePlan) -> None:
    first, second, target = cluster.topic(), cluster.topic(2), cluster.topic()
    cluster.fill(first, numbers(0, 600))
    cluster.fill(second, numbers(600, 1000), partitions=2)
    plan = make_plan(cluster, {first: target, second: target}, agents=2)
    with WorkerProcess(plan) as worker:
        eventually(lambda: cluster.offsets(plan.group, first) == [200] * 3, what="the first is committed")
        eventually(
            lambda: cluster.offsets(plan.group, second, 2) == [200] * 2, what="the second is committed"
        )
        assert worker.terminate()[0] == 0
        seen = {(event["agent"], *event["partition"], event["first"]) for event in worker.events("slice")}
    assert {place[1:] for place in seen if place[0] == 0} == {place[1:] for place in seen if place[0] == 1}
    assert Counter(chain(*cluster.values(target))) == Counter(numbers(0, 1000))

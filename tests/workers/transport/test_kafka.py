"""What can only be seen on Apache Kafka: delivery errors, control markers, notes, membership, retention."""

import time

import pytest

from tests.workers.transport.cluster import Cluster, eventually
from tests.workers.transport.conftest import MakePlan
from tests.workers.transport.plan import Plan
from tests.workers.transport.records import dealt, first_times, numbers
from tests.workers.transport.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka


@pytest.fixture(params=["at_least_once", "exactly_once"])
def own(request: pytest.FixtureRequest) -> dict[str, str]:
    """What a plan needs for each guarantee."""
    return {"transactional_id": f"slot-{time.time_ns()}"} if request.param == "exactly_once" else {}


def run_until(cluster: Cluster, plan: Plan, source: str, offsets: list[int]) -> WorkerProcess:
    """A worker that has committed these offsets and left in good order."""
    with WorkerProcess(plan) as worker:
        eventually(lambda: cluster.offsets(plan.group, source) == offsets, what=f"{offsets} committed")
        assert worker.terminate()[0] == 0
    return worker


def test_an_output_that_can_not_be_delivered_ends_the_process(
    kafka: Cluster, make_plan: MakePlan, own: dict[str, str]
) -> None:
    source, target = kafka.topic(), kafka.topic(config={"max.message.bytes": "50000"})
    kafka.fill(source, numbers(0, 300))
    plan = make_plan(kafka, {source: target}, slice_records=10, bloat_at=(1, 50), **own)
    with WorkerProcess(plan) as worker:
        assert worker.ended() not in {0, -15}
        assert "too large" in worker.log
    assert kafka.offsets(plan.group, source)[1] <= 50
    run_until(kafka, make_plan(kafka, {source: target}, group=plan.group, **own), source, [100] * 3)
    assert [first_times(values) for values in kafka.values(target)] == dealt(numbers(0, 300))


def test_offsets_pass_the_control_markers_and_carry_the_note(
    kafka: Cluster, make_plan: MakePlan, own: dict[str, str]
) -> None:
    source, target = kafka.topic(), kafka.topic()
    kafka.fill(source, numbers(0, 300), transactional=True)
    eventually(lambda: kafka.ends(source) == [101] * 3, what="the markers, which follow the commit")
    plan = make_plan(kafka, {source: target}, note="an origin", **own)
    run_until(kafka, plan, source, [101] * 3)
    assert kafka.committed(plan.group, source) == [(101, "an origin")] * 3
    assert kafka.values(target) == dealt(numbers(0, 300))

    with WorkerProcess(plan) as worker:
        worker.wait_for("assigned", 2)
        assert worker.terminate()[0] == 0
        seen = {event["partition"][1]: event for event in worker.events("assign")}
    for number in range(3):
        assert (seen[number]["committed"], seen[number]["metadata"]) == (101, "an origin")
        assert (seen[number]["low"], seen[number]["high"]) == (0, 101)


def test_what_retention_removed_is_passed_over_loudly(kafka: Cluster, make_plan: MakePlan) -> None:
    source, target = kafka.topic(), kafka.topic()
    kafka.fill(source, numbers(0, 300))
    plan = make_plan(kafka, {source: target})
    run_until(kafka, plan, source, [100] * 3)
    kafka.fill(source, numbers(300, 600))
    kafka.delete_before(source, 2, 150)
    worker = run_until(kafka, plan, source, [200] * 3)
    assert f"{source}[2]: retention removed 50 offsets" in worker.log
    assert worker.events("stats")[-1]["truncated"] == 50
    assert kafka.values(target)[2] == dealt(numbers(0, 600))[2][:100] + dealt(numbers(0, 600))[2][150:]


def test_a_topic_that_does_not_exist_is_refused(kafka: Cluster, make_plan: MakePlan) -> None:
    with WorkerProcess(make_plan(kafka, {"no-such-topic": kafka.topic()})) as worker:
        assert worker.ended() not in {0, -15}
        assert "topic 'no-such-topic' does not exist" in worker.log


def test_a_rebalance_cancels_the_loading_of_what_leaves_and_loads_the_rest_again(
    kafka: Cluster, make_plan: MakePlan
) -> None:
    source, target = kafka.topic(), kafka.topic()
    kafka.fill(source, numbers(0, 300))
    slow = make_plan(kafka, {source: target}, loading_seconds=8.0)
    quick = make_plan(kafka, {source: target}, group=slow.group)
    with WorkerProcess(slow) as first:
        first.wait_for("assign", 3)
        with WorkerProcess(quick) as second:
            second.wait_for("assigned")
            first.wait_for("cancelled")
            first.wait_for("revoke")
            eventually(lambda: kafka.offsets(slow.group, source) == [100] * 3, what="all committed")
            assert second.terminate()[0] == 0
        code, seconds = first.terminate()
        assert (code, seconds < 5) == (0, True)
        left = {tuple(p) for event in first.events("revoke")[:1] for p in event["partitions"]}
        stayed = {tuple(p) for event in first.events("assigned")[:1] for p in event["partitions"]}
    assert left
    assert stayed.isdisjoint(left)
    assert kafka.values(target) == dealt(numbers(0, 300))


def test_the_new_group_protocol_works_by_configuration(kafka: Cluster, make_plan: MakePlan) -> None:
    source, target = kafka.topic(), kafka.topic()
    kafka.fill(source, numbers(0, 3000))
    wishes = {
        "slice_records": 20,
        "seconds_a_slice": 0.03,
        "kafka": {"group.protocol": "consumer", "producer.transaction.timeout.ms": 2_000},
    }
    first = make_plan(kafka, {source: target}, transactional_id=f"{source}-0", **wishes)
    second = make_plan(kafka, {source: target}, group=first.group, transactional_id=f"{source}-1", **wishes)
    with WorkerProcess(first) as one:
        one.wait_for("slice", 10)
        with WorkerProcess(second) as two:
            two.wait_for("assigned")
            one.kill()
            eventually(lambda: kafka.offsets(first.group, source) == [1000] * 3, what="all committed")
            assert two.terminate()[0] == 0
    # What the killed worker left open hides later records until it times out.
    eventually(
        lambda: kafka.ends(target) == kafka.ends(target, isolation="read_uncommitted"), what="all visible"
    )
    assert kafka.values(target) == dealt(numbers(0, 3000))


def test_a_static_member_comes_back_to_its_partitions_at_once(kafka: Cluster, make_plan: MakePlan) -> None:
    source, target = kafka.topic(), kafka.topic()
    kafka.fill(source, numbers(0, 3000))
    plan = make_plan(
        kafka, {source: target}, slice_records=20, seconds_a_slice=0.02,
        kafka={"group.instance.id": "worker-0", "session.timeout.ms": 60_000},
    )  # fmt: skip
    with WorkerProcess(plan) as worker:
        worker.wait_for("slice", 10)
        worker.kill()
    run_until(kafka, plan, source, [1000] * 3)
    assert [first_times(values) for values in kafka.values(target)] == dealt(numbers(0, 3000))

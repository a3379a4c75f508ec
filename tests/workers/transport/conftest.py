"""What the transport's tests share: a cluster, and plans for worker processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.workers.transport.cluster import Cluster
from tests.workers.transport.plan import Plan
from workers.brokers import EmbeddedBroker, KafkaBroker

MakePlan = Callable[..., Plan]


@pytest.fixture
def cluster(broker: EmbeddedBroker | KafkaBroker) -> Cluster:
    """A cluster of either kind; on the embedded broker a group join takes about half the session timeout."""
    return Cluster(broker.bootstrap, session_ms=6_000 if isinstance(broker, KafkaBroker) else 2_000)


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Cluster:
    return Cluster(kafka_broker.bootstrap, session_ms=6_000)


@pytest.fixture
def make_plan(tmp_path: Path) -> MakePlan:
    """Plans with a group and a diary of their own, unless the test names them."""

    def make(cluster: Cluster, routes: dict[str, str], **wishes: Any) -> Plan:
        name = uuid4().hex[:12]
        wishes = {"group": f"g-{name}", "events": str(tmp_path / f"{name}.jsonl"), **wishes}
        kafka = wishes.pop("kafka", {})
        if "group.protocol" not in kafka:
            kafka = {**cluster.session, **kafka}
        return Plan(bootstrap=cluster.bootstrap, routes=routes, kafka=kafka, **wishes)

    return make

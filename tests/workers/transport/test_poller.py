import asyncio

from tests.workers.transport.cluster import Cluster, eventually
from workers.brokers import EmbeddedBroker
from workers.transport.assignments import Delivered
from workers.transport.hooks import Stateless
from workers.transport.intake import Intake
from workers.transport.settings import TransportSettings


class NoAgents:
    def shares(self, topic: str) -> int:
        del topic
        return 1

    def deliver(self, delivered: Delivered) -> None:
        raise AssertionError(delivered)


def crash(error: BaseException) -> None:
    raise error


def test_a_broker_that_knows_the_topic_has_answered(embedded_broker: EmbeddedBroker) -> None:
    """Nothing else is heard here for a minute: no statistics, no fetch of the empty topic, no commit."""
    cluster = Cluster(embedded_broker.bootstrap, session_ms=2_000)
    silent = {"statistics.interval.ms": 0, "fetch.wait.max.ms": 60_000, "socket.timeout.ms": 90_000}
    settings = TransportSettings(bootstrap=cluster.bootstrap, group="answered", kafka=silent)
    intake = Intake(settings, Stateless())

    async def listen() -> None:
        intake.start([cluster.topic()], NoAgents(), asyncio.get_running_loop(), crash)
        try:
            await asyncio.to_thread(
                eventually, lambda: intake.status().answered is not None, within=20, what="answered"
            )
        finally:
            await intake.stop()

    asyncio.run(listen())

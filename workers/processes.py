"""Other processes of this machine: a worker, and a fresh one for the parity check."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from features.errors import Unavailable
from workers.ports import free_port

_READY_PATIENCE = 120.0
_LEAVE_PATIENCE = 20.0


def headrace(*arguments: str) -> list[str]:
    """The command line of a ``headrace`` in this environment, whatever the working folder holds."""
    return [str(Path(sys.executable).with_name("headrace")), *arguments]


class WorkerProcess:
    """``headrace worker``, from ready to SIGTERM.

    Args:
        pipeline: Its reference.
        flags: Further flags.

    Attributes:
        port: Of its pages, on 127.0.0.1.
        exit_code: Once it has ended.
    """

    def __init__(self, pipeline: str, *flags: str) -> None:
        self._pipeline, self._flags = pipeline, flags
        self.port = 0
        self.exit_code: int | None = None
        self._words = ""

    def __enter__(self) -> Self:
        """Start it, and return when it is ready."""
        self.port = port = free_port()
        self._log = tempfile.NamedTemporaryFile(prefix="headrace-worker-", suffix=".log")
        command = headrace("worker", self._pipeline, "--admin-port", str(port), *self._flags)
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)  # noqa: S603 - our own
        deadline = time.monotonic() + _READY_PATIENCE
        while not is_ready(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise Unavailable(f"the worker did not get ready: {self.last_words()}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self.exit_code = self._process.wait(_LEAVE_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.exit_code = self._process.wait()
        self._words = self.last_words()
        self._log.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise `Unavailable` if it has ended."""
        if self.has_ended:
            raise Unavailable(f"the worker has ended with {self._process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        return self._words or Path(self._log.name).read_text(errors="replace")[-2000:]


def is_ready(port: int) -> bool:
    """Whether the worker with its pages at a port says so."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def parity_report(pipeline: str, bootstrap: str) -> dict[str, Any]:
    """What ``headrace parity`` says, in a process that has seen nothing but the topics."""
    command = headrace("parity", pipeline, "--bootstrap", bootstrap, "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if not done.stdout:
        raise Unavailable(f"headrace parity failed: {done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report

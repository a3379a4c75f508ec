"""Worker processes, as a test starts, hits and ends them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.workers.transport.cluster import PATIENCE, eventually
from tests.workers.transport.plan import Plan

_SCRIPT = Path(__file__).with_name("copy_worker.py")


class WorkerProcess:
    """One ``copy_worker.py``; whatever happens to the test, it does not outlive it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._log = Path(plan.events).with_suffix(".log")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_SCRIPT), plan.encode()], stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            sys.stderr.write(f"---- {self._log}\n{self.log[-6000:]}")

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def events(self, what: str) -> list[dict[str, Any]]:
        """What the worker wrote down under this name."""
        path = Path(self.plan.events)
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["what"] == what]

    def wait_for(self, what: str, count: int = 1) -> None:
        """Until the worker has written this down so often."""
        eventually(
            lambda: len(self.events(what)) >= count or not self.is_running,
            what=f"{what} of {self.plan.group}",
        )
        assert len(self.events(what)) >= count, f"ended before {what}:\n{self.log[-4000:]}"

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def terminate(self) -> tuple[int, float]:
        """SIGTERM; returns the exit code and the seconds it took."""
        begin = time.monotonic()
        self._process.terminate()
        return self.ended(), time.monotonic() - begin

    def ended(self, within: float = PATIENCE) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(within)

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        if self.is_running:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

"""A server process that never outlives its owner, and a folder that goes with it.

Beside the server runs a tiny shell, the *watcher*, that waits on a pipe from the owner. However the owner ends
(return, exception, SIGKILL), the pipe closes; the watcher then kills the server and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

# Reads the server's process id, one a line (empty: none any more), until the pipe closes.
_WATCHER = """
trap '' INT TERM HUP
while IFS= read -r line; do pid=$line; done
if [ -n "$pid" ]; then
  kill -KILL "$pid" 2>/dev/null
  tries=0
  while kill -0 "$pid" 2>/dev/null && [ $tries -lt 40 ]; do sleep 0.05; tries=$((tries + 1)); done
fi
rm -rf -- "$1"
"""
# Becomes the server only once the watcher knows its process id: there is no moment in which it could be orphaned.
_GATE = 'IFS= read -r go || exit 1; exec "$@" </dev/null'


class Leash:
    """Holds one server at a time, its folder and its log; use it as a context manager.

    Args:
        name: A word for the folder's name and for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder: Path | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix=f"headrace-{self.name}-"))
        self._watcher = subprocess.Popen(  # noqa: S603 -- the script is ours, the folder is quoted
            ["/bin/sh", "-c", _WATCHER, "watcher", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self._watcher is not None
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()

    @property
    def folder(self) -> Path:
        """The folder that lives as long as this leash."""
        assert self._folder is not None, "enter the context first"
        return self._folder

    @property
    def pid(self) -> int | None:
        """The server's process id, or None when none runs."""
        return None if self._server is None or self._server.poll() is not None else self._server.pid

    @property
    def is_running(self) -> bool:
        """True while the server process exists, stopped by a signal or not."""
        return self._server is not None and self._server.poll() is None

    def start(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run ``argv`` as the server, in a session of its own, its output appended to the log."""
        assert not self.is_running, f"{self.name} runs already"
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 -- the caller chooses what to run
                ["/bin/sh", "-c", _GATE, self.name, *argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
            )
        self._tell_watcher(str(self._server.pid))
        assert self._server.stdin is not None
        with self._server.stdin as gate:
            gate.write(b"go\n")

    def stop(self, timeout: float) -> None:
        """Ask the server to end (SIGTERM); kill it when it has not within ``timeout`` seconds."""
        if self._server is None:
            return
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End the server at once (SIGKILL), as a power cut would; its folder stays."""
        if self._server is None:
            return
        self.signal(signal.SIGKILL)
        self._server.wait()
        self._server = None
        self._tell_watcher("")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server, if it runs."""
        if self._server is not None and self._server.poll() is None:
            self._server.send_signal(number)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines the server wrote, for an error message."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _tell_watcher(self, pid: str) -> None:
        assert self._watcher is not None
        assert self._watcher.stdin is not None
        self._watcher.stdin.write(f"{pid}\n".encode())
        self._watcher.stdin.flush()

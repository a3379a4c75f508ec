"""A contender's process: started, watched, measured, ended."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.contender import ROOT
from features.errors import Unavailable

_LEAVE_SECONDS = 20.0
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""What is installed has its bytecode; what runs from a checkout writes it when it is first started."""


class Process:
    """A process from the ``with`` block's begin to SIGTERM at its end.

    Args:
        command: What to run.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    def __enter__(self) -> Self:
        self._log = tempfile.NamedTemporaryFile(prefix="headrace-bench-", suffix=".log")
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=_ENVIRONMENT, stdout=self._log, stderr=self._log
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    @property
    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far."""
        return cpu_seconds(self._process.pid)

    def check(self) -> None:
        """Raise `Unavailable`, with what it said last, if it has ended."""
        if self._process.poll() is not None:
            raise self.failed(f"ended with {self._process.returncode}")

    def failed(self, what: str) -> Unavailable:
        """It did not do as it should, with what it said last."""
        last_words = Path(self._log.name).read_text(errors="replace")[-3000:]
        return Unavailable(f"{' '.join(self._command[:4])} {what}; its last words: {last_words or 'none'}")


class Processes:
    """Several at once, of one kind.

    Args:
        commands: What to run.
    """

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._processes = [Process(command) for command in commands]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for process in self._processes:
                stack.enter_context(process)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def cpu_seconds(self) -> float:
        """Of all of them, all threads."""
        return sum(process.cpu_seconds for process in self._processes)

    def check(self) -> None:
        """Raise `Unavailable`, with what it said last, if one has ended."""
        for process in self._processes:
            process.check()

    def failed(self, what: str) -> Unavailable:
        """They did not do as they should, with what the first said last."""
        return self._processes[0].failed(what)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads together, in steps of the kernel's tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS


def busy_seconds() -> float:
    """Time in which the machine's cores were not idle, all together, or were taken by its host."""
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq + steal) * _TICK_SECONDS

"""Workers of one group, looked after as a supervisor does: who ends by itself is started again."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from types import TracebackType
from typing import Self

from workers.ports import free_port
from workers.processes import is_ready

_PATIENCE = 120.0


@dataclass(slots=True)
class Member:
    """One slot and the process in it."""

    slot: int
    port: int
    process: subprocess.Popen[bytes]
    is_frozen: bool = False


@dataclass(slots=True, eq=False)
class Fleet:
    """Processes in numbered slots.

    Args:
        command: Starts a worker; slot and port of its pages are added.
        size: How many.

    Attributes:
        ended: How often one ended by itself, as a fenced zombie does.
    """

    command: Sequence[str]
    size: int
    ended: int = 0
    _members: dict[int, Member] = field(default_factory=dict)
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="headrace-chaos-")))

    def __enter__(self) -> Self:
        for slot in range(self.size):
            self.start(slot)
        self.wait_until_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members.values():
            member.process.send_signal(SIGCONT)
            member.process.kill()
            member.process.wait()

    def start(self, slot: int) -> None:
        """A new process in a slot."""
        port = free_port()
        log = (self._folder / f"{slot}.log").open("ab")
        command = [*self.command, "--slot", str(slot), "--admin-port", str(port)]
        self._members[slot] = Member(slot, port, subprocess.Popen(command, stdout=log, stderr=log))
        log.close()

    def kill(self, slot: int) -> None:
        """``kill -9``, and a new process."""
        self._signal(slot, SIGKILL)
        self._members[slot].process.wait()
        self.start(slot)

    def freeze(self, slot: int) -> None:
        """The process stands still, its connections stay open."""
        self._signal(slot, SIGSTOP)
        self._members[slot].is_frozen = True

    def thaw(self, slot: int) -> None:
        """It goes on, and does not know that time has passed."""
        self._signal(slot, SIGCONT)
        self._members[slot].is_frozen = False

    def leave(self, slot: int) -> int:
        """SIGTERM, and a new process; returns the exit code."""
        self._signal(slot, SIGTERM)
        code = self._members[slot].process.wait(_PATIENCE)
        self.start(slot)
        return code

    def look_after(self) -> None:
        """Start again what has ended by itself."""
        for member in list(self._members.values()):
            if member.process.poll() is not None:
                self.ended += 1
                self.start(member.slot)

    def wait_until_ready(self) -> None:
        """Until every process that is not frozen says so."""
        deadline = time.monotonic() + _PATIENCE
        while not all(member.is_frozen or is_ready(member.port) for member in self._members.values()):
            assert time.monotonic() < deadline, f"not ready within {_PATIENCE:.0f} s; {self.last_words()}"
            self.look_after()
            time.sleep(0.2)

    def last_words(self) -> str:
        """The end of each log."""
        return "\n".join(
            f"{path.name}: ... {path.read_text(errors='replace')[-1500:]}"
            for path in self._folder.glob("*.log")
        )

    def _signal(self, slot: int, number: int) -> None:
        self._members[slot].process.send_signal(number)

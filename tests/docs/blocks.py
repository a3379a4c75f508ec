"""Code blocks of the pages, as a reader would run them.

The words behind the language say how: ``file=NAME`` writes a file, ``background`` starts and goes on,
``wait=N-predictions`` runs once N predictions are there. ``python`` without a file is run where it stands.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    words: tuple[str, ...]
    text: str

    def word(self, name: str) -> str | None:
        """The value behind ``name=``."""
        found = [word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")]
        return found[0] if found else None


def blocks(page: Path) -> Iterator[Block]:
    """Blocks of a page, in order."""
    for language, words, text in _BLOCK.findall(page.read_text()):
        yield Block(language, tuple(words.split()), text)


class Reader:
    """Someone who follows a page in a folder, with a broker at hand."""

    def __init__(self, folder: Path, bootstrap: str, running: ExitStack) -> None:
        self._folder, self._running, self._log = folder, running, folder / "background.log"
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HEADRACE_BOOTSTRAP": bootstrap,
            "HEADRACE_KAFKA_SESSION_TIMEOUT_MS": "6000",
            "HEADRACE_ADMIN_PORT": "0",
        }

    def follow(self, block: Block) -> str:
        """Do what the block says; returns what was printed."""
        if name := block.word("file"):
            (self._folder / name).write_text(block.text)
            return ""
        if block.language == "python":
            return self.run([sys.executable, "-c", block.text])
        if "background" in block.words:
            self._start(block.text)
            return ""
        return self.run(["bash", "-euo", "pipefail", "-c", block.text])

    def run(self, command: list[str]) -> str:
        """Run a command in the folder; it has to succeed."""
        done = subprocess.run(
            ["timeout", "100", *command],
            cwd=self._folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        behind = self._log.read_text()[-3000:] if self._log.exists() else ""
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}\nin the background: {behind}"
        return done.stdout + done.stderr

    def _start(self, script: str) -> None:
        log = self._running.enter_context(self._log.open("w"))
        command = ["bash", "-c", f"exec {script.strip()}"]
        process = subprocess.Popen(command, cwd=self._folder, env=self.environment, stdout=log, stderr=log)
        self._running.callback(process.wait, 30)
        self._running.callback(process.terminate)

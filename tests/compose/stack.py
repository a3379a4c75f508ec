"""A local stack beside any other: under a project name and on host ports of its own."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from workers.ports import free_port

ROOT = Path(__file__).parents[2]
_PORTS = ("KAFKA_PORT", "WORKER_PORT", "PROMETHEUS_PORT")
"""What `docker-compose.yml` takes."""


def host_ports() -> dict[str, str]:
    """Those of the environment, and free ones for the others."""
    ports: dict[str, str] = {}
    for name in _PORTS:
        taken = frozenset(map(int, ports.values()))
        ports[name] = os.environ.get(name) or str(free_port(taken))
    return ports


class Stack:
    """The services of `docker-compose.yml` under a project name of their own.

    Args:
        project: The name.
        ports: As `host_ports` gives them.
    """

    def __init__(self, project: str, ports: Mapping[str, str]) -> None:
        self.project, self._ports = project, ports

    @property
    def bootstrap(self) -> str:
        """Kafka, from this machine."""
        return f"127.0.0.1:{self._ports['KAFKA_PORT']}"

    def compose(
        self, *arguments: str, check: bool = True, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``docker compose`` on this stack."""
        return run(
            ["docker", "compose", "--project-name", self.project, *arguments],
            check=check,
            variables={**self._ports, **(variables or {})},
        )

    def down(self) -> None:
        """Remove everything, volumes included."""
        self.compose("--profile", "demo", "down", "--volumes", "--remove-orphans")

    def logs(self) -> str:
        """The newest lines of every service."""
        return self.compose("logs", "--tail", "40", check=False).stdout

    def container(self, service: str) -> str:
        """Its id, running or not."""
        return self.compose("ps", "--all", "--quiet", service).stdout.strip()

    def inspect(self, service: str) -> Any:
        """What the engine knows of its container."""
        return json.loads(run(["docker", "inspect", self.container(service)]).stdout)[0]

    def worker(self, path: str) -> str:
        """A page of the worker."""
        return _get(f"http://127.0.0.1:{self._ports['WORKER_PORT']}{path}")

    def measured(self, query: str) -> float | None:
        """What Prometheus has for a query, or ``None`` while it has nothing."""
        parameters = urlencode({"query": query})
        port = self._ports["PROMETHEUS_PORT"]
        answer = json.loads(_get(f"http://127.0.0.1:{port}/api/v1/query?{parameters}"))
        found = answer["data"]["result"]
        return float(found[0]["value"][1]) if found else None


def run(
    command: Sequence[str], *, check: bool = True, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end; what it said is shown if it fails."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"{' '.join(command)} exited {done.returncode}:\n{done.stdout[-4000:]}"
    return done


def _get(url: str) -> str:
    with urlopen(url, timeout=10) as answer:
        return answer.read().decode()

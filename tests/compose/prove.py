"""Proves the local stack with a real engine: ``make compose-test``.

Needs ``docker`` with compose v2. Host ports are free ones unless KAFKA_PORT, WORKER_PORT or PROMETHEUS_PORT say
otherwise. Prints each proof with its time and figures; exits 1 at the first that fails; leaves nothing running.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from pipelines.flights import example_events
from tests.compose.host import Host
from tests.compose.stack import ROOT, Stack, host_ports, run
from tests.workers.transport.cluster import eventually

_EVENTS, _RATE = 20_000, 1_000
"""In each of the two parts that are published; events a second."""
_PATIENCE = 120
_SECRET = re.compile(
    r"(password|passwd|secret|token|api_?key|credential)\w*[=:]|-----BEGIN|://[^/\s]+@", re.IGNORECASE
)
_REGISTERED = {"model.onnx", "manifest.json"}
_KINDS = (("ps", "--all"), ("volume", "ls"), ("network", "ls"))


class Proofs:
    """In this order: each begins where the one before ended.

    Args:
        stack: Not up yet.
        host: This machine.
    """

    def __init__(self, stack: Stack, host: Host) -> None:
        self.stack, self.host = stack, host

    def __iter__(self) -> Iterator[Callable[[], str]]:
        return (getattr(self, name) for name in vars(Proofs) if not name.startswith("_"))

    def the_image_builds(self) -> str:
        self.stack.compose("build", "worker")
        return f"{int(run(['docker', 'image', 'inspect', '--format', '{{.Size}}', 'headrace']).stdout) / 1e6:.0f} MB"

    def up_fails_while_the_worker_can_not_be_ready(self) -> str:
        up = self.stack.compose(
            "up", "--wait", "--wait-timeout", "60", check=False, variables={"MODEL": "nosuch"}
        )
        assert up.returncode != 0, up.stdout
        said = self.stack.compose("logs", "--no-log-prefix", "worker").stdout.splitlines()
        return next(line for line in said if line.startswith("headrace: "))

    def up_waits_until_the_worker_is_ready(self) -> str:
        self.stack.compose("up", "--wait", "--wait-timeout", str(_PATIENCE))
        health = json.loads(self.stack.worker("/ready"))  # a 503 raises
        return ", ".join(check["detail"] for check in health["checks"].values())

    def what_the_host_publishes_comes_back_as_predictions(self) -> str:
        with self.host.publishing(example_events().slice(0, _EVENTS), _RATE):
            pass
        return self.host.every_scored_event_gets_its_prediction(_EVENTS)

    def the_engine_came_compiled_with_the_image(self) -> str:
        changed = run(["docker", "diff", self.stack.container("worker")]).stdout.splitlines()
        compiled = [line for line in changed if line.endswith((".nbi", ".nbc"))]
        assert not compiled, compiled
        return "the container has compiled nothing"

    def prometheus_has_scraped_the_worker(self) -> str:
        predictions, query = len(self.host.predictions()), "headrace_predictions_total"
        eventually(lambda: self.stack.measured(query) == predictions, what=f"{query} is {predictions}")
        assert self.stack.measured('up{job="headrace"}') == self.stack.measured("headrace_ready") == 1
        return f"{query} is {predictions}"

    def nothing_runs_as_root(self) -> str:
        users = {
            service: self.stack.compose("exec", "--no-TTY", service, "id", "-u").stdout.strip()
            for service in ("worker", "kafka", "prometheus")
        }
        assert "0" not in users.values(), users
        return ", ".join(f"{service} is {user}" for service, user in users.items())

    def no_secret_is_in_the_image(self) -> str:
        history = run(["docker", "history", "--no-trunc", "--format", "{{.CreatedBy}}", "headrace"]).stdout
        settings = run(["docker", "image", "inspect", "--format", "{{json .Config}}", "headrace"]).stdout
        assert not _SECRET.search(history + settings), history + settings
        files = self.stack.compose("exec", "--no-TTY", "worker", "find", ".", "-type", "f").stdout.split()
        assert {Path(file).name for file in files} == _REGISTERED, files
        return f"none in {len(history.splitlines())} steps; of this folder it holds the package and {len(files)} files"

    def a_restart_of_kafka_loses_nothing(self) -> str:
        started = self.stack.inspect("worker")["State"]["StartedAt"]
        with self.host.publishing(example_events().slice(_EVENTS, _EVENTS), _RATE) as publisher:
            under_way = _EVENTS + _EVENTS // 4
            eventually(lambda: self._events() > under_way, what=f"{under_way} events")
            assert publisher.poll() is None, "all events were out before the restart"
            self.stack.compose("restart", "kafka")
        counted = self.host.every_scored_event_gets_its_prediction(2 * _EVENTS)
        self.stack.compose("up", "--wait", "--wait-timeout", str(_PATIENCE))
        is_same = self.stack.inspect("worker")["State"]["StartedAt"] == started
        return (
            f"{counted}; the worker {'is the same process' if is_same else 'gave up and was started again'}"
        )

    def the_page_does_what_it_says(self) -> str:
        self.host.run_page(ROOT / "docs" / "local-stack.md")
        return self.host.every_scored_event_gets_its_prediction(2 * _EVENTS + 1)

    def the_demo_profile_publishes(self) -> str:
        before = self._events()
        self.stack.compose("--profile", "demo", "up", "--wait", "--wait-timeout", str(_PATIENCE))
        eventually(lambda: self._events() > before + 200, what="200 events of the publisher")
        self.stack.compose("--profile", "demo", "stop", "publisher")
        return self.host.every_scored_event_gets_its_prediction(self._events())

    def a_stopped_worker_drains_and_leaves(self) -> str:
        started = time.monotonic()
        self.stack.compose("stop", "worker")
        seconds = time.monotonic() - started
        code = self.stack.inspect("worker")["State"]["ExitCode"]
        assert code == 0, f"exit code {code}"
        return f"exit code 0 after {seconds:.1f} s"

    def down_keeps_topics_and_progress(self) -> str:
        before = self._events()
        self.stack.compose("--profile", "demo", "down")
        self.stack.compose("up", "--wait", "--wait-timeout", str(_PATIENCE))
        with self.host.publishing(example_events().slice(2 * _EVENTS, _RATE), _RATE):
            pass
        return self.host.every_scored_event_gets_its_prediction(before + _RATE)

    def predictions_rest_on_the_rows_that_replay_computes(self) -> str:
        return self.host.parity()

    def down_with_volumes_leaves_nothing(self) -> str:
        self.stack.down()
        label = f"label=com.docker.compose.project={self.stack.project}"
        left = [run(["docker", *kind, "--quiet", "--filter", label]).stdout.split() for kind in _KINDS]
        assert not any(left), left
        return "no container, volume or network"

    def _events(self) -> int:
        return sum(map(len, self.host.events()))


def main() -> None:
    """All proofs on one stack."""
    stack = Stack("headrace-test", host_ports())
    with tempfile.TemporaryDirectory() as folder:
        try:
            for proof in Proofs(stack, Host(stack.bootstrap, Path(folder))):
                _show(proof, stack)
        finally:
            stack.down()
    click.echo("proved")


def _show(proof: Callable[[], str], stack: Stack) -> None:
    started, sentence = time.monotonic(), proof.__name__.replace("_", " ")
    try:
        found = proof()
    except BaseException:
        click.echo(f"FAILED   {sentence}\n{stack.logs()}")
        raise
    click.echo(f"{time.monotonic() - started:6.1f} s {sentence}: {found}")


if __name__ == "__main__":
    main()

"""How long a worker takes from its start to being ready."""

import time
import urllib.request

from benchmarks.contender import Contender
from benchmarks.contenders.task import Task
from benchmarks.process import Process
from benchmarks.report import ReadyRun

_PATIENCE = 300.0
_GLANCE_SECONDS = 0.01


def run_to_ready(contender: Contender, task: Task) -> ReadyRun:
    """From before the process starts to ``/ready`` answering 200.

    Raises:
        Unavailable: It ended, or is not ready after five minutes.
    """
    began = time.monotonic()
    with Process(contender.command(task)) as process:
        while not _is_ready(task.admin_port):
            process.check()
            if time.monotonic() - began > _PATIENCE:
                raise process.failed(f"is not ready after {_PATIENCE:.0f} s")
            time.sleep(_GLANCE_SECONDS)
        return ReadyRun(seconds=time.monotonic() - began, cpu_seconds=process.cpu_seconds)


def _is_ready(admin_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:  # nobody listens yet, or it is not ready
        return False

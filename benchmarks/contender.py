"""Who takes part, and how each one is started."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.task import Task
from pipelines.card_fraud import pipeline

ROOT = Path(__file__).parent.parent
"""Where contenders are started, so that ``benchmarks`` can be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A way to turn payments into predictions.

    Args:
        name: In the report.
        title: For people.
        sink: The topic it writes to.
        command: How it is started.
        is_exact: Whether every event has exactly one prediction; else at least one.
    """

    name: str
    title: str
    sink: str
    command: Callable[[Task], Sequence[str]]
    is_exact: bool = False


def _program(module: str) -> Callable[[Task], Sequence[str]]:
    return lambda task: [sys.executable, "-m", f"benchmarks.contenders.{module}", task.as_argument()]


def _headrace(delivery: str) -> Callable[[Task], Sequence[str]]:
    def command(task: Task) -> Sequence[str]:
        return [
            sys.executable, "-m", "workers.cli", "worker", pipeline.name,
            "--bootstrap", task.bootstrap, "--group", task.group, "--registry", task.registry,
            "--delivery", delivery, "--admin-port", str(task.admin_port), "--log-level", "warning",
        ]  # fmt: skip

    return command


HANDWRITTEN = Contender(
    name="handwritten",
    title="hand-written loop",
    sink="card_fraud.handwritten",
    command=_program("handwritten"),
)
AT_LEAST_ONCE = Contender(
    name="at_least_once",
    title="Headrace, at least once",
    sink=pipeline.predictions,
    command=_headrace("at_least_once"),
)
EXACTLY_ONCE = Contender(
    name="exactly_once",
    title="Headrace, exactly once",
    sink=pipeline.predictions,
    command=_headrace("exactly_once"),
    is_exact=True,
)
STOCK_FAUST = Contender(
    name="stock_faust", title="stock Faust", sink="card_fraud.faust", command=_program("stock_faust")
)
BARE = Contender(name="bare", title="bare copy", sink="card_fraud.copied", command=_program("copying"))

SINKS = tuple(dict.fromkeys(each.sink for each in (HANDWRITTEN, AT_LEAST_ONCE, STOCK_FAUST, BARE)))

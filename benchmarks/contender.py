"""Who takes part, and how each one is started."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks import drawn
from benchmarks.contenders.task import Task
from pipelines.card_fraud import pipeline
from workers.ports import free_port

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
        processes: How many run at once, in one group.
        is_exact: Whether every event has exactly one prediction; else at least one.
    """

    name: str
    title: str
    sink: str
    command: Callable[[Task], Sequence[str]]
    processes: int = 1
    is_exact: bool = False

    def tasks(self, task: Task) -> list[Task]:
        """The task of each process, the first one's as it is, with a port of its own."""
        others = (msgspec.structs.replace(task, admin_port=free_port()) for _ in range(self.processes - 1))
        return [task, *others]


def _program(module: str) -> Callable[[Task], Sequence[str]]:
    return lambda task: [sys.executable, "-m", f"benchmarks.contenders.{module}", task.as_argument()]


def _headrace(
    delivery: str, reference: str = pipeline.name, *options: str
) -> Callable[[Task], Sequence[str]]:
    def command(task: Task) -> Sequence[str]:
        return [
            sys.executable, "-m", "workers.cli", "worker", reference,
            "--bootstrap", task.bootstrap, "--group", task.group, "--registry", task.registry,
            "--checkpoints", str(Path(task.registry).with_name("checkpoints")), "--delivery", delivery,
            "--admin-port", str(task.admin_port), "--log-level", "warning", *options,
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
# with seconds between heartbeats the first one would have done all the work before it hears of the second
TWO_WORKERS = Contender(
    name="two_workers",
    title="Headrace, two workers",
    sink=pipeline.predictions,
    command=_headrace("at_least_once", pipeline.name, "--kafka", "heartbeat.interval.ms=100"),
    processes=2,
)
STOCK_FAUST = Contender(
    name="stock_faust", title="stock Faust", sink="card_fraud.faust", command=_program("stock_faust")
)
BARE = Contender(name="bare", title="bare copy", sink="card_fraud.copied", command=_program("copying"))


def drawn_of(seed: int) -> Contender:
    """Headrace at least once with 12 other features."""
    return Contender(
        name=drawn.NAME,
        title=f"Headrace, 12 features of seed {seed}",
        sink=drawn.drawn(seed).predictions,
        command=_headrace("at_least_once", drawn.reference(seed)),
    )


SINKS = tuple(dict.fromkeys(each.sink for each in (HANDWRITTEN, AT_LEAST_ONCE, STOCK_FAUST, BARE)))

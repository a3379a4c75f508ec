"""Throughput: how fast a contender gets through a full topic, and what CPU an event takes.

Each run starts fresh processes with a new group on the same topic. Measured is the part from the first 5 % of
the predictions, and of several processes from when each has predicted something, to the last one being visible to an
outside reader of committed records. Meanwhile nothing else
of ours runs but a look at the sink's ends and at ``/proc`` every 50 ms; the predictions are read, counted and
checked after they have ended.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cluster import Cluster, Ends
from benchmarks.contender import Contender
from benchmarks.contenders.task import Task
from benchmarks.events import Scored
from benchmarks.predicted import Predicted, WrongAnswers, read_predicted
from benchmarks.process import Processes, busy_seconds
from benchmarks.report import ThroughputRun
from benchmarks.stages import has_predicted

_GLANCE_SECONDS = 0.05
_SETTLE_SECONDS = 0.7
_SILENT_SECONDS = 60.0
_WARM_UP = 0.05
_LEAST_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment.

    Args:
        at: Seconds.
        ends: Of the sink.
        cpu: The contender's, s.
        broker_cpu: The broker's, s.
        busy: Of all cores together, whoever used them, s.
        all_predict: Whether each of several processes has predicted something.
    """

    at: float
    ends: Ends
    cpu: float
    broker_cpu: float
    busy: float
    all_predict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What is the same for every contender.

    Args:
        cluster: Its source topic is full.
        due: The events of the source topic that are scored.
        broker_cpu: The broker's CPU time so far, s.
    """

    cluster: Cluster
    due: Scored
    broker_cpu: Callable[[], float]

    def run(
        self, contender: Contender, task: Task, wanted: int, repetition: int, like: Predicted | None
    ) -> tuple[ThroughputRun, Predicted]:
        """Let a contender score ``wanted`` events.

        Raises:
            Unavailable: It ended or stood still.
            WrongAnswers: Its predictions are not what they should be.
        """
        begin = self.cluster.ends(contender.sink)
        tasks = contender.tasks(task)
        waited_for = [each.admin_port for each in tasks] if contender.processes > 1 else []
        with Processes([contender.command(each) for each in tasks]) as processes:
            samples = self._watch(contender, processes, begin, wanted, waited_for)
        end = self.cluster.ends(contender.sink)
        predicted = read_predicted(self.cluster, contender.sink, begin, end)
        predicted.check(contender, self.due, like, all_of=wanted == sum(map(len, self.due.values())))
        self.cluster.empty([contender.sink])
        return measured(contender, samples, predicted, wanted, repetition), predicted

    def _watch(
        self, contender: Contender, processes: Processes, begin: Ends, wanted: int, waited_for: list[int]
    ) -> list[Sample]:
        """Samples until as many offsets were written as events are wanted, and nothing more comes.

        Control markers are offsets as well, so what was wanted may be some predictions short at that moment.
        """
        samples: list[Sample] = []
        changed_at = reached_at = time.monotonic()
        while True:
            now = time.monotonic()
            ends = self.cluster.ends(contender.sink)
            processes.check()
            if not samples or ends != samples[-1].ends:
                changed_at = now
            samples.append(
                Sample(
                    time.monotonic(),
                    ends,
                    processes.cpu_seconds,
                    self.broker_cpu(),
                    busy_seconds(),
                    not waited_for,
                )
            )
            waited_for = [port for port in waited_for if not has_predicted(port)]
            if sum(ends) - sum(begin) < wanted:
                reached_at = now
                if now - changed_at > _SILENT_SECONDS:
                    raise processes.failed(f"stands still after {sum(ends) - sum(begin)} records")
            elif (
                now - max(changed_at, reached_at) > _SETTLE_SECONDS or now - reached_at > 5 * _SETTLE_SECONDS
            ):
                return samples
            time.sleep(_GLANCE_SECONDS)


def measured(
    contender: Contender, samples: list[Sample], predicted: Predicted, wanted: int, repetition: int
) -> ThroughputRun:
    """The span from the warm-up's end to the last prediction; counts are of events, each once."""
    visible = [predicted.visible(sample.ends) for sample in samples]
    all_predict = [sample.all_predict for sample in samples]
    first = next(
        (i for i, count in enumerate(visible) if count >= _WARM_UP * wanted and all_predict[i]), len(samples)
    )
    last = next((i for i, count in enumerate(visible) if count >= wanted), None)
    if last and not all_predict[last]:
        first = last - 1  # one of several processes was done before the others began: it tells nothing
    if last is None or last <= first:
        raise WrongAnswers(
            f"{contender.title}: {visible[-1]} of {wanted} predictions were seen, too few samples between"
        )
    begin, end = samples[first], samples[last]
    events, seconds = visible[last] - visible[first], end.at - begin.at
    cpu, broker_cpu = end.cpu - begin.cpu, end.broker_cpu - begin.broker_cpu
    return ThroughputRun(
        contender=contender.name,
        repetition=repetition,
        events=events,
        seconds=seconds,
        events_per_second=events / seconds,
        cpu_us_per_event=1e6 * cpu / events,
        broker_cpu_us_per_event=1e6 * broker_cpu / events,
        other_cores=max(0.0, end.busy - begin.busy - cpu - broker_cpu) / seconds,
        repeated=predicted.repeated,
    )


def is_telling(run: ThroughputRun, wanted: int) -> bool:
    """Whether a run's span holds a quarter of the events; with several processes, the last one may be late."""
    return run.events >= _LEAST_SHARE * wanted

"""Every metric there is, in one typed list; the operator's page is made from it.

Nothing is counted twice: what the parts of a worker count anyway is read when Prometheus asks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.registry import Collector

from workers.transport.stats import Histogram

if TYPE_CHECKING:
    from workers.worker import Worker

Labelled = Mapping[tuple[str, ...], float | None]


class Kind(StrEnum):
    """Prometheus' kinds of metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Args:
        name: Without the prefix ``headrace_``; a counter without ``_total``.
        kind: Its kind.
        unit: What is counted.
        meaning: One sentence for the operator.
        read: Its value: a number, a `Histogram`, or numbers by label values. ``None`` is unknown and
            is not shown, since unknown is not zero.
        labels: Names of the labels.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    read: Callable[["Worker"], Any]
    labels: Sequence[str] = ()


def _by_partition(read: Callable[[Any], float | None]) -> Callable[["Worker"], Labelled]:
    return lambda worker: {
        (status.partition.topic, str(status.partition.number)): read(status)
        for status in worker.transport.status().partitions
    }


METRICS: tuple[Metric, ...] = (
    Metric(name="records", kind=Kind.COUNTER, unit="records", meaning="Records read from the source.",
           read=lambda w: w.transport.stats.records),
    Metric(name="events", kind=Kind.COUNTER, unit="events", meaning="Well-formed events folded.",
           read=lambda w: w.scorer.stats.events),
    Metric(name="predictions", kind=Kind.COUNTER, unit="records", meaning="Predictions handed to delivery.",
           read=lambda w: w.scorer.stats.predictions),
    Metric(name="dead_letters", kind=Kind.COUNTER, unit="records", labels=("stage", "reason"),
           meaning="Records that could not be used, handed to delivery as dead letters.",
           read=lambda w: dict(w.scorer.stats.dead_letters)),
    Metric(name="own_seconds", kind=Kind.HISTOGRAM, unit="seconds",
           meaning="From a slice's arrival to its rows: decoding and folding.", read=lambda w: w.scorer.stats.own_time),
    Metric(name="scored_seconds", kind=Kind.HISTOGRAM, unit="seconds",
           meaning="From a slice's arrival to its predictions being handed to delivery.",
           read=lambda w: w.scorer.stats.total_time),
    Metric(name="batches", kind=Kind.COUNTER, unit="micro-batches", labels=("why",),
           meaning="Micro-batches run, by why they left: full, due or idle.",
           read=lambda w: {(why.value,): count for why, count in w.inference.stats.batches.items()}),
    Metric(name="batch_rows", kind=Kind.HISTOGRAM, unit="rows", meaning="Rows of each micro-batch.",
           read=lambda w: w.inference.stats.sizes),
    Metric(name="batch_wait_seconds", kind=Kind.HISTOGRAM, unit="seconds",
           meaning="From a slice's arrival to its micro-batch leaving.", read=lambda w: w.inference.stats.waited),
    Metric(name="model_seconds", kind=Kind.HISTOGRAM, unit="seconds", meaning="Time in the model, for each micro-batch.",
           read=lambda w: w.inference.stats.ran),
    Metric(name="waiting_rows", kind=Kind.GAUGE, unit="rows", meaning="Rows that wait for the model.",
           read=lambda w: w.inference.waiting_rows),
    Metric(name="delivery_seconds", kind=Kind.HISTOGRAM, unit="seconds",
           meaning="From a slice being done to its outputs being durable.", read=lambda w: w.transport.stats.delivery),
    Metric(name="slices", kind=Kind.COUNTER, unit="slices", meaning="Slices cut.", read=lambda w: w.transport.stats.slices),
    Metric(name="outputs", kind=Kind.COUNTER, unit="records", meaning="Records produced, those of aborted transactions included.",
           read=lambda w: w.transport.stats.outputs),
    Metric(name="commits", kind=Kind.COUNTER, unit="commits", meaning="Commits that came through, transactions included.",
           read=lambda w: w.transport.stats.commits),
    Metric(name="commit_failures", kind=Kind.COUNTER, unit="commits", meaning="Commits that failed and were tried again.",
           read=lambda w: w.transport.stats.commit_failures),
    Metric(name="aborts", kind=Kind.COUNTER, unit="transactions", meaning="Transactions aborted.",
           read=lambda w: w.transport.stats.aborts),
    Metric(name="stalls", kind=Kind.COUNTER, unit="times", meaning="Times that reading stood still because too much was unfinished.",
           read=lambda w: w.transport.stats.stalls),
    Metric(name="dropped_slices", kind=Kind.COUNTER, unit="slices",
           meaning="Slices dropped because their partition left before they were done; its new owner reads them again.",
           read=lambda w: w.transport.stats.dropped),
    Metric(name="truncated_records", kind=Kind.COUNTER, unit="offsets", meaning="Offsets that retention removed before they were read.",
           read=lambda w: w.transport.stats.truncated),
    Metric(name="rebalances", kind=Kind.COUNTER, unit="times", meaning="Times that partitions were assigned, revoked or lost.",
           read=lambda w: w.transport.stats.rebalances),
    Metric(name="position", kind=Kind.GAUGE, unit="offset", labels=("topic", "partition"), meaning="The offset read next.",
           read=_by_partition(lambda status: status.position)),
    Metric(name="committed", kind=Kind.GAUGE, unit="offset", labels=("topic", "partition"), meaning="The offset committed last.",
           read=_by_partition(lambda status: status.committed)),
    Metric(name="lag", kind=Kind.GAUGE, unit="offsets", labels=("topic", "partition"),
           meaning="Offsets from the committed one to the log's end; absent while unknown.",
           read=lambda w: {(p.topic, str(p.number)): lag for p, lag in w.lags().items()}),
    Metric(name="oldest_slice_seconds", kind=Kind.GAUGE, unit="seconds", labels=("topic", "partition"),
           meaning="Age of the oldest unfinished slice.", read=_by_partition(lambda status: status.oldest_open)),
    Metric(name="state_keys", kind=Kind.GAUGE, unit="keys", meaning="Entities held in state.", read=lambda w: w.states.keys),
    Metric(name="state_bytes", kind=Kind.GAUGE, unit="bytes", meaning="State in use.", read=lambda w: w.states.size),
    Metric(name="replayed_records", kind=Kind.COUNTER, unit="records", meaning="Records replayed to recover state.",
           read=lambda w: w.states.recovery.replayed),
    Metric(name="checkpoints", kind=Kind.COUNTER, unit="checkpoints", meaning="Checkpoints written.",
           read=lambda w: w.states.checkpointer.stats.written),
    Metric(name="checkpoint_failures", kind=Kind.COUNTER, unit="checkpoints", meaning="Checkpoints that came to nothing.",
           read=lambda w: w.states.checkpointer.stats.failed),
    Metric(name="checkpoint_bytes", kind=Kind.COUNTER, unit="bytes", meaning="Files of checkpoints written.",
           read=lambda w: w.states.checkpointer.stats.size),
    Metric(name="checkpoint_seconds", kind=Kind.GAUGE, unit="seconds", meaning="Time that the last checkpoint took.",
           read=lambda w: w.states.checkpointer.stats.seconds),
    Metric(name="ready", kind=Kind.GAUGE, unit="0 or 1", meaning="Whether /ready is green.", read=lambda w: float(w.health.was_ready)),
)  # fmt: skip


class WorkerCollector(Collector):
    """Reads every metric of a worker when Prometheus asks."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def collect(self) -> Iterator[Family]:
        """The metrics with their values now."""
        for metric in METRICS:
            yield _family(metric, metric.read(self._worker))


def _family(metric: Metric, value: Any) -> Family:
    name, labels = f"headrace_{metric.name}", list(metric.labels)
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, metric.meaning, labels=labels)
        histogram.add_metric([], _buckets(value), value.total)
        return histogram
    made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = made(name, metric.meaning, labels=labels)
    for key, number in value.items() if labels else [((), value)]:
        if number is not None:
            family.add_metric(list(key), number)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound, as Prometheus wants them."""
    buckets, seen = [], 0
    for bound, count in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return buckets

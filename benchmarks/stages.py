"""Where the time of an event goes inside Headrace, by the worker's own metrics."""

import urllib.request
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

STAGES = {
    "own": "headrace_own_seconds",
    "until batch": "headrace_batch_wait_seconds",
    "model": "headrace_model_seconds",
    "until done": "headrace_scored_seconds",
    "delivery": "headrace_delivery_seconds",
}
"""By stage its histogram: decode and fold; from a slice's arrival to its batch leaving; in the model; from a slice's
arrival to its predictions being handed over; from then to their being durable."""

Totals = Mapping[str, tuple[float, float]]
"""By stage, seconds in all and how many were counted."""


def totals(admin_port: int) -> Totals:
    """As the worker at this port counts now."""
    samples = _samples(admin_port)
    return {stage: (samples[f"{name}_sum"], samples[f"{name}_count"]) for stage, name in STAGES.items()}


def has_predicted(admin_port: int) -> bool:
    """Whether the worker at this port, if it listens already, has handed over a prediction."""
    try:
        return _samples(admin_port)["headrace_predictions_total"] > 0
    except OSError:
        return False


def means_ms(before: Totals, after: Totals) -> dict[str, float]:
    """Mean milliseconds of each stage between two looks."""
    spans = {
        stage: (after[stage][0] - before[stage][0], after[stage][1] - before[stage][1]) for stage in after
    }
    return {stage: 1000 * seconds / max(1.0, count) for stage, (seconds, count) in spans.items()}


def _samples(admin_port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

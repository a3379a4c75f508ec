"""What was found about how cost and memory grow, and how it follows from the runs."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

FEATURES = (12, 50, 200)
"""Numbers of features that are compared."""

WINDOWED = ("frequent", "rare", "values", "quantile", "distinct", "quantile_dense", "distinct_dense")
"""What is measured with windows of 10 minutes and of 24 hours."""

_WARM_SHARE = 0.2
_WITHOUT = {"growing": "steady", "evicting": "steady_few", "saving": "steady"}
"""By run, the one of about as many keys without what it is about."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    Args:
        repetitions: Of each cost.
        events: Measured in a repetition, after warming up.
        keys: The many.
        few_keys: The few.
        dense_keys: With an event in every tile.
        churn_events: While keys come and go.
        slices: Of a run that looks for pauses.
        singles: Records that are processed one by one.
    """

    repetitions: int
    events: int
    keys: int
    few_keys: int
    dense_keys: int
    churn_events: int
    slices: int
    singles: int


_FULL = Form(
    repetitions=3, events=500_000, keys=1_000_000, few_keys=20_000, dense_keys=1000, churn_events=50_000_000, slices=4_000,
    singles=20_000,
)  # fmt: skip
_QUICK = Form(
    repetitions=3, events=50_000, keys=100_000, few_keys=2_000, dense_keys=100, churn_events=2_000_000, slices=2_000,
    singles=2_000,
)  # fmt: skip


def form(*, quick: bool) -> Form:
    """The whole form, some minutes, or the short one."""
    return _QUICK if quick else _FULL


class CostRun(msgspec.Struct, frozen=True, kw_only=True):
    """CPU of one variant in one repetition, us an event."""

    variant: str
    repetition: int
    cpu_us: float


class SingleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Decode and process of one JSON record at a time, wall time, ms."""

    p50: float
    p99: float


class StateSize(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes a key of 10 windowed features.

    Args:
        keys: How many were held.
        sparse: In use with 6 events a key over a day.
        sparse_resident: By which the process's resident memory grew meanwhile.
        dense: In use with an event in every tile of every window.
    """

    keys: int
    sparse: float
    sparse_resident: float
    dense: float


class Churn(msgspec.Struct, frozen=True, kw_only=True):
    """Memory while keys come and go with a TTL, after a fifth of the events.

    Args:
        events: In all.
        keys: Most held at a glance.
        first_half: Most bytes in use in the first half of what follows the warm-up.
        second_half: The same of the second half.
        growth: The second over the first; flat is 1.
    """

    events: int
    keys: int
    first_half: int
    second_half: int
    growth: float


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of slices of 1,000 events, ms."""

    p50: float
    p999: float
    max: float


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; ratios are medians over repetitions of the quotient within one.

    Args:
        form: How much was measured.
        seconds: How long it took.
        window: An event's cost with windows of 24 h over that of 10 min, 12 features: ``frequent`` with an event of a
            key every 10 s, ``rare`` with one every half an hour, and ``values``, with distinct and quantile, which
            keep the values themselves, at one every half an hour; ``quantile`` and ``distinct``, one feature of that
            kind alone, at one every half an hour, and ``_dense`` at one every minute.
        keys: An event's cost with `Form.keys` over that with `Form.few_keys`.
        features: By number of features, the cost of a feature over that of one of 12; linear is 1.
        cpu_us: By variant, median CPU of an event, us.
        single_record: Of the pipeline card_fraud.
        state: Memory.
        churn: Memory while keys come and go.
        pauses_ms: By run: ``steady``, with `Form.keys`; ``growing`` up to a tenth as many keys as events, every tenth
            event of a new one; ``saving``, the steady one with all keys saved beside it, begun every 500th slice; ``evicting``,
            where keys come and go with a TTL; ``steady_few``, with about as many keys as that one holds.
        added_p999_ms: How much higher the 99.9th percentile of a run is than that of the steady one beside it.
        runs: Every cost.
    """

    form: Form
    seconds: float
    window: dict[str, float]
    keys: float
    features: dict[str, float]
    cpu_us: dict[str, float]
    single_record: SingleRecord
    state: StateSize
    churn: Churn
    pauses_ms: dict[str, Pauses]
    added_p999_ms: dict[str, float]
    runs: list[CostRun]


def quotient(runs: Iterable[CostRun], upper: str, lower: str) -> float:
    """Median over repetitions of one variant's cost over another's."""
    by_repetition: dict[int, dict[str, float]] = {}
    for run in runs:
        by_repetition.setdefault(run.repetition, {})[run.variant] = run.cpu_us
    return statistics.median(costs[upper] / costs[lower] for costs in by_repetition.values())


def medians(runs: Iterable[CostRun]) -> dict[str, float]:
    """By variant."""
    found: dict[str, list[float]] = {}
    for run in runs:
        found.setdefault(run.variant, []).append(run.cpu_us)
    return {name: statistics.median(costs) for name, costs in found.items()}


def feature_ratios(runs: Sequence[CostRun]) -> dict[str, float]:
    """By number of features, the cost of one over the cost of one of the fewest."""
    fewest = FEATURES[0]
    return {
        str(number): quotient(runs, f"features_{number}", f"features_{fewest}") * fewest / number
        for number in FEATURES[1:]
    }


def churn_of(sizes: Sequence[int], keys: Sequence[int], events: int) -> Churn:
    """From glances at equal distances."""
    begin = round(_WARM_SHARE * len(sizes))
    middle = (begin + len(sizes)) // 2
    first, second = max(sizes[begin:middle]), max(sizes[middle:])
    return Churn(events=events, keys=max(keys), first_half=first, second_half=second, growth=second / first)


def pauses_of(seconds: Sequence[float]) -> Pauses:
    """Percentiles are observed values, not between two."""
    p50, p999, most = 1e3 * np.quantile(seconds, [0.5, 0.999, 1.0], method="inverted_cdf")
    return Pauses(p50=float(p50), p999=float(p999), max=float(most))


def added(pauses: Mapping[str, Pauses]) -> dict[str, float]:
    """By run that is compared, its 99.9th percentile less that of the run without."""
    return {name: pauses[name].p999 - pauses[without].p999 for name, without in _WITHOUT.items()}

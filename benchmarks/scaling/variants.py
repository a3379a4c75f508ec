"""Feature sets and streams whose costs are compared."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from benchmarks.scaling.report import FEATURES, Form
from benchmarks.scaling.stream import SLICE, Stream, uniform
from features.columns import Columns
from features.engine import Engine, PartitionState
from features.expressions import Expression, col
from features.featureset import FeatureSet, over
from features.kinds import count, distinct, max_, mean, min_, quantile, std, sum_
from features.kinds.kind import Kind, WindowedKind
from pipelines.card_fraud import WINDOWS, schema

DAY_S = 86_400.0
EVENTS_A_KEY = 6
"""In a day, where keys are many."""

_TEN_MINUTES, _HOUR, _DAY = WINDOWS
_OFTEN_S, _MINUTE_S, _SELDOM_S = 10.0, 60.0, 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """An engine on a stream.

    Args:
        engine: What is computed.
        stream: Of what.
        warm: Events before it is measured.
        events: Events measured.
    """

    engine: Engine
    stream: Stream
    warm: int
    events: int

    def cost(self, seed: int) -> float:
        """CPU of an event, us."""
        state, slices = self.engine.new_partition(), self.stream.slices(seed)
        for columns in itertools.islice(slices, self.warm // SLICE):
            state.process(columns)
        times = [_cpu_seconds(state, columns) for columns in itertools.islice(slices, self.events // SLICE)]
        return 1e6 * sum(times) / (len(times) * SLICE)


def windows(length: timedelta) -> Engine:
    """12 features of one window length, of tiles alone."""
    return _numbered([over([length], **_six(where)) for where in (None, col("online") == 1)])


def windows_of_values(length: timedelta) -> Engine:
    """12 features of one window length that keep values."""
    return _numbered([over([length], **_three(col("amount") > above)) for above in (0, 25, 50, 75)])


def median(length: timedelta) -> Engine:
    """One quantile alone."""
    return _engine(over([length], median=quantile("amount", 0.5)))


def merchants(length: timedelta) -> Engine:
    """One distinct alone."""
    return _engine(over([length], merchants=distinct("merchant")))


def so_many(features: int) -> Engine:
    """Six kinds over two windows, and again with another predicate."""
    rounds = range(-(-features // 12))
    return _numbered(
        [over([_TEN_MINUTES, _HOUR], **_six(col("amount") > above)) for above in rounds], features
    )


def ten_windowed(ttl: timedelta | None = None) -> Engine:
    """Count, sum and mean over three windows, and the day's highest."""
    features = over(WINDOWS, count=count(), sum=sum_("amount"), mean=mean("amount"))
    return _engine({**features, **over([_DAY], max=max_("amount"))}, ttl)


def variants(form: Form) -> dict[str, Variant]:
    """Everything whose cost is compared."""
    found: dict[str, Variant] = {}
    few = max(10, form.few_keys // 100)
    seldom = uniform(form.few_keys, _SELDOM_S)
    for name, engine, keys, interval_s in (
        ("frequent", windows, few, _OFTEN_S),
        ("rare", windows, form.few_keys, _SELDOM_S),
        ("values", windows_of_values, form.few_keys, _SELDOM_S),
        ("quantile", median, form.few_keys, _SELDOM_S),
        ("distinct", merchants, form.few_keys, _SELDOM_S),
        ("quantile_dense", median, few, _MINUTE_S),
        ("distinct_dense", merchants, few, _MINUTE_S),
    ):
        for length, text in ((_TEN_MINUTES, "10min"), (_DAY, "24h")):
            found[f"{name}_{text}"] = Variant(
                engine=engine(length),
                stream=uniform(keys, interval_s),
                warm=round(1.1 * keys * DAY_S / interval_s),
                events=form.events,
            )
    for name, keys in (("few_keys", form.few_keys), ("many_keys", form.keys)):
        stream = uniform(keys, DAY_S / EVENTS_A_KEY)
        found[name] = Variant(engine=so_many(12), stream=stream, warm=EVENTS_A_KEY * keys, events=form.events)
    for number in FEATURES:
        found[f"features_{number}"] = Variant(
            engine=so_many(number), stream=seldom, warm=EVENTS_A_KEY * form.few_keys, events=form.events
        )
    return found


def _six(where: Expression | None) -> dict[str, WindowedKind]:
    return {
        "count": count(where=where),
        "sum": sum_("amount", where=where),
        "mean": mean("amount", where=where),
        "min": min_("amount", where=where),
        "max": max_("amount", where=where),
        "std": std("amount", where=where),
    }


def _three(where: Expression) -> dict[str, WindowedKind]:
    return {
        "merchants": distinct("merchant", where=where),
        "median": quantile("amount", 0.5, where=where),
        "high": quantile("amount", 0.95, where=where),
    }


def _numbered(rounds: Sequence[Mapping[str, Kind]], features: int | None = None) -> Engine:
    """So many of the features of all rounds; all by default."""
    named = {f"{name}_{number}": kind for number, kinds in enumerate(rounds) for name, kind in kinds.items()}
    return _engine(dict(itertools.islice(named.items(), features)))


def _engine(features: Mapping[str, Kind], ttl: timedelta | None = None) -> Engine:
    return Engine(schema, [FeatureSet(key="card", features=features, ttl=ttl)])


def _cpu_seconds(state: PartitionState, columns: Columns) -> float:
    began = time.thread_time()
    state.process(columns)
    return time.thread_time() - began

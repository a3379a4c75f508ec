"""Measures how cost and memory grow."""

import itertools
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.events import made_up
from benchmarks.scaling.report import (
    WINDOWED,
    Churn,
    CostRun,
    Form,
    Pauses,
    Scaling,
    SingleRecord,
    StateSize,
    added,
    churn_of,
    feature_ratios,
    medians,
    pauses_of,
    quotient,
)
from benchmarks.scaling.stream import SLICE, Stream, churning, growing, regular, uniform
from benchmarks.scaling.variants import DAY_S, EVENTS_A_KEY, ten_windowed, variants
from features.decode import RecordDecoder
from features.engine import Engine, PartitionState
from features.records import NO_TIMESTAMP, Records
from features.saving import KEYS_A_STEP
from pipelines.card_fraud import WINDOWS, pipeline, schema

_INTERVAL_S = DAY_S / EVENTS_A_KEY
_TILE_S = 30.0
_ALIVE, _LIFE_S = 20_000, 1800.0
_GLANCES = 200
_SLICES_A_SAVING = 500


def measure_costs(form: Form, console: Console) -> list[CostRun]:
    """Every variant once in each repetition."""
    runs = []
    chosen = variants(form)
    for repetition in range(1, form.repetitions + 1):
        for name, variant in chosen.items():
            runs.append(CostRun(variant=name, repetition=repetition, cpu_us=variant.cost(repetition)))
        said = ", ".join(f"{run.variant} {run.cpu_us:.2f}" for run in runs[-len(chosen) :])
        console.print(f"{repetition}. CPU us an event: {said}")
    return runs


def measure_single(form: Form) -> SingleRecord:
    """The pipeline card_fraud on its own events, the first half in slices."""
    events = made_up(2 * form.singles)
    values, keys = events["value"].to_pylist(), events["key"].to_pylist()
    decoder, state = RecordDecoder(schema), pipeline.engine.new_partition()

    def process(begin: int, end: int) -> float:
        began = time.perf_counter()
        records = Records(
            values=values[begin:end],
            keys=keys[begin:end],
            offsets=np.arange(begin, end),
            timestamps=np.full(end - begin, NO_TIMESTAMP),
        )
        state.process(decoder.decode(records).columns)
        return time.perf_counter() - began

    for begin in range(0, form.singles, SLICE):
        process(begin, begin + SLICE)
    seconds = [process(at, at + 1) for at in range(form.singles, 2 * form.singles)]
    p50, p99 = 1e3 * np.quantile(seconds, [0.5, 0.99])
    return SingleRecord(p50=float(p50), p99=float(p99))


def measure_state(form: Form) -> StateSize:
    """Sparse and dense."""
    engine = ten_windowed()
    before, state = resident_bytes(), engine.new_partition()
    _feed(state, uniform(form.keys, _INTERVAL_S), EVENTS_A_KEY * form.keys)
    resident, keys, sparse = (resident_bytes() - before) / state.keys, state.keys, state.size / state.keys
    dense = engine.new_partition()
    full = round((DAY_S + 2 * WINDOWS[-1].total_seconds() / 12) / _TILE_S)
    _feed(dense, regular(form.dense_keys, _TILE_S), form.dense_keys * full)
    return StateSize(keys=keys, sparse=sparse, sparse_resident=resident, dense=dense.size / dense.keys)


def measure_churn(form: Form) -> Churn:
    """10 windowed features, about 20,000 keys alive at a time for half an hour, forgotten half an hour later."""
    state = ten_windowed(timedelta(seconds=_LIFE_S)).new_partition()
    every, sizes, keys = max(1, form.churn_events // SLICE // _GLANCES), [], []
    slices = churning(_ALIVE, EVENTS_A_KEY, _LIFE_S).slices(1)
    for number, columns in enumerate(itertools.islice(slices, form.churn_events // SLICE)):
        state.process(columns)
        if number % every == every - 1:
            sizes.append(state.size)
            keys.append(state.keys)
    return churn_of(sizes, keys, form.churn_events)


def measure_pauses(form: Form) -> dict[str, Pauses]:
    """Each run on a new partition."""
    plain, forgetful = ten_windowed(), ten_windowed(timedelta(seconds=_LIFE_S))
    steady = uniform(form.keys, _INTERVAL_S)
    grown = growing(10, 1000 * _INTERVAL_S / form.keys)
    gone = churning(_ALIVE, EVENTS_A_KEY, _LIFE_S)
    return {
        "steady": pauses_of(_times(plain, steady, 2 * form.keys, form.slices)),
        "growing": pauses_of(_times(plain, grown, 0, form.slices)),
        "steady_few": pauses_of(_times(plain, uniform(2 * _ALIVE, _INTERVAL_S), 4 * _ALIVE, form.slices)),
        "evicting": pauses_of(_times(forgetful, gone, 4 * _ALIVE * EVENTS_A_KEY, form.slices)),
        "saving": pauses_of(_times(plain, steady, 2 * form.keys, form.slices, saved_every=_SLICES_A_SAVING)),
    }


def measure(form: Form, console: Console) -> Scaling:
    """Everything."""
    began = time.monotonic()
    state = measure_state(form)
    console.print(
        f"state: {state.sparse:.0f} B a key, {state.sparse_resident:.0f} B resident, {state.dense:.0f} B dense"
    )
    churn = measure_churn(form)
    console.print(f"churn: {churn.second_half / 1e6:.1f} MB, {churn.growth:.3f} of before")
    pauses = measure_pauses(form)
    runs = measure_costs(form, console)
    return Scaling(
        form=form,
        window={name: quotient(runs, f"{name}_24h", f"{name}_10min") for name in WINDOWED},
        keys=quotient(runs, "many_keys", "few_keys"),
        features=feature_ratios(runs),
        cpu_us=medians(runs),
        single_record=measure_single(form),
        state=state,
        churn=churn,
        pauses_ms=pauses,
        added_p999_ms=added(pauses),
        runs=runs,
        seconds=time.monotonic() - began,
    )


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _feed(state: PartitionState, stream: Stream, events: int) -> None:
    for columns in itertools.islice(stream.slices(1), events // SLICE):
        state.process(columns)


def _times(engine: Engine, stream: Stream, warm: int, slices: int, saved_every: int = 0) -> list[float]:
    """CPU of each slice, s, that of a step of saving with the slice that waits for it."""
    state, given = engine.new_partition(), stream.slices(1)
    for columns in itertools.islice(given, warm // SLICE):
        state.process(columns)
    seconds, saving = [], None
    for number, columns in enumerate(itertools.islice(given, slices), 1):
        began = time.thread_time()
        if saved_every and number % saved_every == 0:
            assert saving is None or saving.is_done
            saving = state.begin_saving()
        if saving is not None and not saving.is_done:
            saving.step(KEYS_A_STEP)
            saving.take()
        state.process(columns)
        seconds.append(time.thread_time() - began)
    return seconds

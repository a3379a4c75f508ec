"""``python -m benchmarks.offline``: how fast Parquet becomes rows, and polars beside it on the same features.

Both read one typed Parquet file and write a Parquet file, or drop the rows; on one thread, in turns, and counted as CPU
time, so that a busy machine changes no ratio. Opening the files counts; starting Python, importing and compiling don't.

polars computes what `pipelines.card_fraud` declares, labels too, in the cheapest way found: sums over ``[t - W, t)`` of
each card, divided for the mean. Its windows slide by the millisecond; those of Headrace have a tail cut at a tile, and
hold what stands earlier in the log at the same time. It knows no late events and no expiry, writes no positions and no
digests, and holds everything in memory. Where times are whole tiles and no two payments of a card are at one time both
mean the same: there the values are compared.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before polars is imported

import click
import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.events import made_up
from features.recorded import RecordedFiles
from features.windows import as_window, short_name
from pipelines.card_fraud import DAY, WINDOWS, pipeline
from pipelines.replay import replayed, row_schema, write_rows

EVENTS, REPETITIONS = 1_000_000, 3
HEADRACE, POLARS = "headrace", "polars"

_START_MS = 1_699_999_200_000
_CHECKED_CARDS, _CHECKED_STEPS = 40, 300


class OfflineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Args:
        what: ``headrace`` or ``polars``, and whether rows are written.
        repetition: From 1.
        events: How many were read.
        seconds: It took.
        cpu_us_per_event: CPU time of the process, all threads.
    """

    what: str
    repetition: int
    events: int
    seconds: float
    cpu_us_per_event: float


class Offline(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the repetitions.

    Args:
        events_per_core_second: By what was run: events a second of CPU time.
        cpu_ratio: By whether rows are written: CPU time of polars over that of Headrace within a repetition; more than
            1 and Headrace is cheaper.
        runs: Every run.
    """

    events_per_core_second: dict[str, float]
    cpu_ratio: dict[str, float]
    runs: list[OfflineRun]


def typed_events(events: int, path: Path) -> None:
    """The benchmark's events as a typed Parquet file."""
    lines = b"\n".join(made_up(events)["value"].to_pylist())
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 24)
    pq.write_table(pyarrow.json.read_json(pa.BufferReader(lines), read_options=options), path)


def by_headrace(source: Path, target: Path | None) -> None:
    """Rows of the pipeline, with labels."""
    rows = replayed(pipeline, RecordedFiles.at(source))
    if target is None:
        for _ in rows:
            pass
    else:
        write_rows(rows, row_schema(pipeline), target)


def by_polars(source: Path, target: Path | None) -> None:
    """The same features and labels."""
    events = pl.scan_parquet(source).select("kind", "payment_id", "card", "ts", "amount").collect()
    rows = polars_rows(events)
    if target is not None:
        rows.write_parquet(target, compression="uncompressed", statistics=False)


def polars_rows(events: pl.DataFrame) -> pl.DataFrame:
    """What the pipeline declares, of ``kind, payment_id, card, ts, amount`` in order of ``ts``."""
    card, amount, times = pl.col("card"), pl.col("amount"), pl.col("ts").cast(pl.Datetime("ms"))
    names, sums = [short_name(window) for window in WINDOWS], []
    for name, window in zip(names, WINDOWS, strict=True):
        for what, value in (("count", pl.col("ts").is_not_null().cast(pl.Float64)), ("sum", amount)):
            summed = value.rolling_sum_by(times, window_size=window, closed="left").over(card)
            sums.append(summed.fill_null(0.0).alias(f"{what}_{name}"))
    payments = events.filter(pl.col("kind") == "payment").with_columns(*sums)
    means = [
        (pl.col(f"sum_{name}") / pl.col(f"count_{name}")).fill_nan(0.0).alias(f"mean_{name}")
        for name in names
    ]
    since = ((pl.col("ts") - pl.col("ts").shift(1).over(card)) / 1000.0).fill_null(DAY).alias("since_last")
    rows = payments.with_columns(*means, since, times.dt.hour().alias("hour"), label=_label(events))
    columns = pipeline.engine.float_columns
    floats = [pl.col(name.rpartition(".")[2]).cast(pl.Float32).alias(name) for name in columns]
    return rows.select("card", "ts", "payment_id", *floats, "label")


def _label(events: pl.DataFrame) -> pl.Series:
    """Of each payment: whether it is charged back within the horizon; null while that is open."""
    assert pipeline.labels is not None
    horizon = pipeline.labels.horizon
    back = events.filter(pl.col("kind") == "chargeback").group_by("payment_id").agg(back=pl.col("ts").min())
    payments = events.filter(pl.col("kind") == "payment").select("payment_id", "ts")
    until = pl.col("ts") + horizon // timedelta(milliseconds=1)
    is_back = (pl.col("back") <= until).fill_null(False).cast(pl.Float64)
    joined = payments.join(back, on="payment_id", how="left", maintain_order="left")
    return joined.select(label=pl.when(until < events["ts"].max()).then(is_back))["label"]


def agreement(folder: Path) -> float:
    """The largest relative difference of the two where both mean the same; 0 is none.

    Times are multiples of a window's tile: that window and those whose tiles divide it are compared.
    """
    worst = 0.0
    for length in WINDOWS:
        tile = as_window(length).tile_ms
        names = [
            f"card.{what}_{short_name(window)}"
            for window in WINDOWS
            if tile % as_window(window).tile_ms == 0
            for what in ("count", "sum", "mean")
        ]
        source, target = folder / "checked.parquet", folder / "rows.parquet"
        pq.write_table(_at_whole_tiles(tile), source)
        by_headrace(source, target)
        ours, theirs = pq.read_table(target), polars_rows(pl.read_parquet(source))
        for name in [*names, "card.since_last", "amount", "hour", "label"]:
            a, b = (
                np.nan_to_num(each[name].to_numpy(), nan=-1.0).astype(np.float64) for each in (ours, theirs)
            )
            worst = max(worst, float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))))
    return worst


def _at_whole_tiles(tile: int) -> pa.Table:
    """Events at multiples of a tile, no two payments of a card at one time, in order of time."""
    random = np.random.default_rng(tile)
    steps, cards = np.nonzero(random.random((_CHECKED_STEPS, _CHECKED_CARDS)) < 0.6)
    n = len(steps)
    back = np.flatnonzero(random.random(n) < 0.1)
    later = steps[back] + random.integers(1, _CHECKED_STEPS // 4, len(back))
    times, whose = np.concatenate([steps, later]), np.concatenate([np.arange(n), back])
    is_payment = np.arange(n + len(back)) < n
    order = np.argsort(times, kind="stable")
    times, whose, is_payment = times[order], whose[order], is_payment[order]
    amounts = np.round(random.lognormal(3, 1, len(order)), 2)
    return pa.table({
        "kind": np.where(is_payment, "payment", "chargeback"), "payment_id": [str(i) for i in whose],
        "card": [f"card_{card}" for card in cards[whose]], "ts": _START_MS + times * tile,
        "amount": pa.array(amounts, mask=~is_payment),
    })  # fmt: skip


def measure(events: int, repetitions: int, say: Callable[[str], Any]) -> Offline:
    """Run both in turns.

    Raises:
        AssertionError: They do not agree where both mean the same.
    """
    pa.set_cpu_count(1)
    runs: list[OfflineRun] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        difference = agreement(folder)  # compiles as well
        say(f"at whole tiles the features differ by {difference:.1e} at most")
        assert difference < 1e-4, "Headrace and polars do not agree"
        source, target = folder / "events.parquet", folder / "rows.parquet"
        typed_events(events, source)
        for repetition in range(1, repetitions + 1):
            for what, run in ((HEADRACE, by_headrace), (POLARS, by_polars)):
                for suffix, to in ((" to Parquet", target), ("", None)):
                    runs.append(_timed(what + suffix, repetition, events, lambda: run(source, to)))  # noqa: B023 - called at once
                    say(
                        f"{repetition}. {what}{suffix}: {1e6 / runs[-1].cpu_us_per_event:,.0f} events/s a core"
                    )
    return summary(runs)


def _timed(what: str, repetition: int, events: int, run: Callable[[], None]) -> OfflineRun:
    began, cpu = time.monotonic(), time.process_time()
    run()
    return OfflineRun(
        what=what,
        repetition=repetition,
        events=events,
        seconds=time.monotonic() - began,
        cpu_us_per_event=1e6 * (time.process_time() - cpu) / events,
    )


def summary(runs: Sequence[OfflineRun]) -> Offline:
    """Of every run."""
    by_what: dict[str, dict[int, float]] = {}
    for run in runs:
        by_what.setdefault(run.what, {})[run.repetition] = run.cpu_us_per_event
    ratios = {
        named: statistics.median(
            by_what[POLARS + suffix][i] / cpu for i, cpu in by_what[HEADRACE + suffix].items()
        )
        for named, suffix in (("to_parquet", " to Parquet"), ("dropped", ""))
    }
    speeds = {what: 1e6 / statistics.median(mine.values()) for what, mine in by_what.items()}
    return Offline(events_per_core_second=speeds, cpu_ratio=ratios, runs=list(runs))


def lines(found: Offline) -> Iterable[str]:
    """The report for people."""
    for what, speed in found.events_per_core_second.items():
        yield f"offline, {what}: {speed:,.0f} events/s a core"
    for what, ratio in found.cpu_ratio.items():
        yield f"offline.{what} polars / headrace {ratio:.2f} by CPU"


@click.command()
@click.option("--events", type=click.IntRange(min=1000), default=EVENTS, show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=REPETITIONS, show_default=True)
def main(events: int, repetitions: int) -> None:
    """Measure replay from Parquet, with polars beside it."""
    console = Console()
    for line in lines(measure(events, repetitions, console.print)):
        console.print(line)


if __name__ == "__main__":
    main()

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from benchmarks import offline
from benchmarks.events import made_up, payments_of
from benchmarks.offline import (
    HEADRACE,
    POLARS,
    OfflineRun,
    agreement,
    by_headrace,
    by_polars,
    polars_rows,
    summary,
)


def test_polars_computes_the_same_where_both_mean_the_same(tmp_path: Path) -> None:
    assert agreement(tmp_path) < 1e-6


def test_agreement_would_see_another_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(events: pl.DataFrame) -> pl.DataFrame:
        return polars_rows(events.with_columns(ts=pl.col("ts") + pl.int_range(pl.len()) % 2))

    monkeypatch.setattr(offline, "polars_rows", shifted)
    assert agreement(tmp_path) > 1e-3


def test_agreement_would_see_another_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_less(events: pl.DataFrame) -> pl.DataFrame:
        first = events.filter(kind="chargeback")["payment_id"][0]
        return polars_rows(events.filter((pl.col("kind") == "payment") | (pl.col("payment_id") != first)))

    monkeypatch.setattr(offline, "polars_rows", one_less)
    assert agreement(tmp_path) == 1


def test_the_events_are_typed(tmp_path: Path) -> None:
    offline.typed_events(2000, tmp_path / "events.parquet")
    by_headrace(tmp_path / "events.parquet", tmp_path / "rows.parquet")
    by_polars(tmp_path / "events.parquet", tmp_path / "theirs.parquet")
    rows, theirs = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("rows", "theirs"))
    payments = payments_of(made_up(2000))
    assert rows.num_rows == theirs.num_rows == len(payments)
    assert rows["label_key"].to_pylist() == theirs["payment_id"].to_pylist()
    assert set(rows["partition"].to_pylist()) == {0, 1, 2, 3}


def test_a_ratio_is_the_median_of_the_quotients_within_a_repetition() -> None:
    def run(what: str, repetition: int, cpu: float) -> OfflineRun:
        return OfflineRun(what=what, repetition=repetition, events=1, seconds=1.0, cpu_us_per_event=cpu)

    found = summary([
        run(what + suffix, i, cpu)
        for suffix in ("", " to Parquet")
        for i, ours, theirs in ((1, 1.0, 2.0), (2, 10.0, 5.0), (3, 1.0, 3.0))
        for what, cpu in ((HEADRACE, ours), (POLARS, theirs))
    ])  # fmt: skip
    assert found.cpu_ratio == {"to_parquet": 2.0, "dropped": 2.0}
    assert found.events_per_core_second[HEADRACE] == pytest.approx(1e6)

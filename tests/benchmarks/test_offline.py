from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from benchmarks import offline
from benchmarks.offline import HEADRACE, POLARS, OfflineRun, agreement, by_headrace, polars_features, summary


def test_polars_computes_the_same_where_both_mean_the_same(tmp_path: Path) -> None:
    assert agreement(tmp_path) < 1e-6


def test_agreement_would_see_another_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(events: pl.DataFrame) -> pl.DataFrame:
        return polars_features(events.with_columns(ts=pl.col("ts") + pl.int_range(pl.len()) % 2))

    monkeypatch.setattr(offline, "polars_features", shifted)
    assert agreement(tmp_path) > 1e-3


def test_the_payments_are_typed(tmp_path: Path) -> None:
    offline.typed_payments(2000, tmp_path / "payments.parquet")
    by_headrace(tmp_path / "payments.parquet", tmp_path / "rows.parquet")
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows.num_rows == 2000
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

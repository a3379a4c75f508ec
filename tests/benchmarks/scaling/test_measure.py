import io

from rich.console import Console

from benchmarks.scaling.measure import measure
from benchmarks.scaling.report import Form
from benchmarks.scaling.table import show
from benchmarks.scaling.variants import so_many, variants, windows, windows_of_values
from pipelines.card_fraud import WINDOWS

TINY = Form(
    repetitions=1, events=2000, keys=2000, few_keys=100, dense_keys=4, churn_events=1_400_000, slices=20, singles=1000,
)  # fmt: skip


def test_everything_is_measured_and_shown() -> None:
    console = Console(file=io.StringIO(), width=120)
    found = measure(TINY, console)
    assert set(found.cpu_us) == set(variants(TINY))
    assert all(cost > 0 for cost in found.cpu_us.values())
    assert set(found.added_p999_ms) == {"growing", "evicting", "saving"}
    assert found.state.dense > 4 * found.state.sparse  # every tile of 21 + 13 + 13 has a place
    assert found.churn.growth < 1.05
    show(found, console)
    assert isinstance(console.file, io.StringIO)
    assert "2,000 keys against 100" in console.file.getvalue()


def test_what_is_compared_has_so_many_features() -> None:
    assert [len(so_many(number).float_columns) for number in (12, 50, 200)] == [12, 50, 200]
    for engine in (windows(WINDOWS[0]), windows_of_values(WINDOWS[-1])):
        assert len(engine.float_columns) == 12

"""How cost and memory grow, for people."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from benchmarks.scaling.report import Scaling


def show(found: Scaling, console: Console) -> None:
    """Print the table, each row with its goal."""
    table = Table(title="how cost and memory grow", title_justify="left")
    for heading in ("", "found", "goal"):
        table.add_column(heading, justify="left" if heading in {"", "goal"} else "right")
    for row in _rows(found):
        table.add_row(*row)
    console.print(table)


def _rows(found: Scaling) -> Iterator[tuple[str, str, str]]:
    form, state, churn = found.form, found.state, found.churn
    for name, what in (
        ("frequent", "24 h against 10 min, an event of a key every 10 s"),
        ("rare", "24 h against 10 min, every 30 min"),
        ("values", "the same of distinct and quantile"),
        ("quantile", "the same of a quantile alone"),
        ("distinct", "the same of a distinct alone"),
        ("quantile_dense", "a quantile alone, every minute"),
        ("distinct_dense", "a distinct alone, every minute"),
    ):
        yield what, f"{found.window[name]:.2f}", "≤ 1.1"
    yield f"{form.keys:,} keys against {form.few_keys:,}", f"{found.keys:.2f}", "≤ 2"
    for number, ratio in found.features.items():
        yield f"a feature of {number} against one of 12", f"{ratio:.2f}", "≤ 1"
    yield "a single record, p50 ms", f"{found.single_record.p50:.3f}", "≤ 1"
    yield "a single record, p99 ms", f"{found.single_record.p99:.3f}", ""
    yield f"state at {state.keys:,} keys, B a key", f"{state.sparse:.0f}", "≤ 512"
    yield "the same, resident", f"{state.sparse_resident:.0f}", ""
    yield "the same, every tile filled", f"{state.dense:.0f}", ""
    yield f"growth while keys come and go, {churn.events:,} events", f"{churn.growth:.3f}", "≤ 1.05"
    for name, more in found.added_p999_ms.items():
        yield f"{name}: added to p99.9 of a slice, ms", f"{more:.1f}", "≤ 20"

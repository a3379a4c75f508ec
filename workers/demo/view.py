"""What people see while the demo runs."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from workers.demo.monitor import Monitor

_LINES_EVERY = 5.0


class View:
    """A live table on a terminal, a line every few seconds elsewhere.

    Args:
        monitor: What is shown.
        console: Where.
    """

    def __init__(self, monitor: Monitor, console: Console) -> None:
        self._monitor, self._console = monitor, console
        self._past: deque[tuple[float, int, int]] = deque(maxlen=8)
        self._live: Live | None = None
        self._line_at = 0.0

    @contextmanager
    def shown(self) -> Iterator["View"]:
        """Show it while the block runs."""
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield self
        self._live = None

    def update(self, what: str) -> None:
        """Show how things are now."""
        now, monitor = time.monotonic(), self._monitor
        self._past.append((now, monitor.events, monitor.predictions))
        events, predictions = self._rates()
        auc = "not yet" if math.isnan(monitor.live_auc) else f"{monitor.live_auc:.4f}"
        cells = (
            ("", what),
            ("events", f"{monitor.events:,}  ({events:,.0f}/s)"),
            ("predictions", f"{monitor.predictions:,}  ({predictions:,.0f}/s)"),
            ("AUC so far", f"{auc}  over {len(monitor.scores.labels):,} flights whose 24 h have passed"),
            ("dead letters", f"{monitor.dead_letters:,}"),
        )
        if self._live is not None:
            table = Table.grid(padding=(0, 2))
            for name, cell in cells:
                table.add_row(f"[bold]{name}[/bold]", cell)
            self._live.update(table, refresh=True)
        elif now >= self._line_at:
            self._console.print("; ".join(f"{name} {cell}".strip() for name, cell in cells), soft_wrap=True)
            self._line_at = now + _LINES_EVERY

    def _rates(self) -> tuple[float, float]:
        """Events and predictions a second, lately."""
        (then, events, predictions), (now, more_events, more_predictions) = self._past[0], self._past[-1]
        seconds = max(1e-9, now - then)
        return (more_events - events) / seconds, (more_predictions - predictions) / seconds

"""Pages that are made from code: settings and metrics. ``python -m workers.pages`` writes them into ``docs/``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workers.settings import PREFIX, Settings
from workers.telemetry import METRICS, Kind

DOCS = Path(__file__).parent.parent / "docs"


def settings_page() -> str:
    """``docs/settings.md``."""
    return "\n".join(_settings_lines()) + "\n"


def _settings_lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "*Made from `workers/settings.py` by `make docs`; change it there.*"
    yield ""
    yield "A flag goes over the environment, that over a TOML file: `headrace.toml` in the working folder, or the file"
    yield "that `HEADRACE_SETTINGS` names. A duration is a number of seconds, or `500ms`, `10s`, `5m`, `1h`. What librdkafka understands passes through to every"
    yield "Kafka client as `kafka.*`, or to one kind of client as `kafka.consumer.*` and `kafka.producer.*`:"
    yield ""
    yield "| where | how |"
    yield "| --- | --- |"
    yield "| flag | `--kafka security.protocol=SSL` |"
    yield "| environment | `HEADRACE_KAFKA_SECURITY_PROTOCOL=SSL` |"
    yield '| file | `[kafka]` and `"security.protocol" = "SSL"` |'
    yield ""
    yield "Secrets (passwords, keys, tokens) are never shown or logged."
    yield ""
    yield "| setting | default | environment | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in Settings.model_fields.items():
        if name == "kafka":
            continue
        yield f"| `{name}` | {_default(field.default)} | `{PREFIX}{name.upper()}` | {field.description} |"


def _default(value: Any) -> str:
    if value in {"", None}:
        return ""
    return f"`{value.total_seconds():g}`" if hasattr(value, "total_seconds") else f"`{value}`"


def metrics_table() -> str:
    """The table of metrics in ``docs/operate.md``."""
    return "\n".join(_metric_lines())


def _metric_lines() -> Iterator[str]:
    yield "| metric | kind | unit | labels | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for metric in METRICS:
        suffix = "_total" if metric.kind is Kind.COUNTER else ""
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `headrace_{metric.name}{suffix}` | {metric.kind.value} | {metric.unit} | {labels} | {metric.meaning} |"


def with_table(page: str) -> str:
    """A page with the table of metrics between its markers."""
    begin, end = "<!-- metrics: made by make docs -->", "<!-- end of metrics -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{metrics_table()}\n\n{end}{rest.split(end)[1]}"


def write() -> None:
    """Write what is made into the pages."""
    (DOCS / "settings.md").write_text(settings_page())
    operate = DOCS / "operate.md"
    operate.write_text(with_table(operate.read_text()))


if __name__ == "__main__":
    write()

"""Logs: JSON lines for machines, lines for people on a terminal."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from workers.settings import Settings


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, and ``error`` with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_handler(settings: Settings) -> logging.Handler:
    """Where logs go: stderr, in the format of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    is_human = settings.log_format == "human" or (settings.log_format == "auto" and sys.stderr.isatty())
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s") if is_human else JsonLines()
    )
    return handler

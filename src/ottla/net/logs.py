"""How Ottla logs: one readable line per event, or one JSON object for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FORMATS = ("text", "json")


def set_up(log_format: str = "text", level: str = "INFO") -> None:
    """Send Ottla's log entries to standard error in one of `FORMATS`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if log_format == "json" else _Text())
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_when(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"time": _when(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)

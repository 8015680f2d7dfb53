"""How Ottla logs: one readable line per event, or one JSON object for programs; lines that repeat are counted.

A peer or a full disk can cause the same line again and again. A record logged with `extra={"cause": "<key>"}` is let through once
per cause and second, or as often as its `most` says; the next line of that cause tells how many were left out. Knows no event by
name.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime

FORMATS = ("text", "json")

LIMITED = (
    "ottla.authorizer", "ottla.broker", "ottla.cluster", "ottla.coord", "ottla.log", "ottla.net", "ottla.records", "ottla.registry",
    "ottla.zookeeper",
)  # fmt: skip
"""The loggers of a broker: a filter holds for the logger that it was added to, not for those below."""

MOST_CAUSES = 1000


LONGEST = 10_000
"""Characters of one message: a name may have 32 767 bytes."""


def one_line(message: str) -> str:
    """Return a message as one line may show it: without line breaks and control characters, and not too long."""
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}… ({len(message)} characters)"
    if message.isprintable():
        return message
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in message)


class Limiter(logging.Filter):
    """Lets one record per cause and second through, or `most`; a record without a cause always passes. Any thread may log.

    What is let through is one line: names in it are those that clients chose.

    Seconds are those of the records. Of more than `MOST_CAUSES` the one that was met first is forgotten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, tuple[float, int, int]] = {}
        """By cause: when its second began, how many lines were told in it, how many left out since."""
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Let the next record of every cause through."""
        with self._lock:
            self._told.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        cause: str | None = getattr(record, "cause", None)
        if cause is None:
            return self._keep_on_one_line(record)
        with self._lock:
            began_s, told, left_out = self._told.get(cause, (-1.0, 0, 0))
            if not 0 <= record.created - began_s < 1:
                began_s, told = record.created, 0
            elif told >= getattr(record, "most", 1):
                self._told[cause] = began_s, told, left_out + 1
                return False
            self._told[cause] = began_s, told + 1, 0
            if len(self._told) > MOST_CAUSES:
                del self._told[next(iter(self._told))]
        return self._keep_on_one_line(record, left_out)

    @staticmethod
    def _keep_on_one_line(record: logging.LogRecord, left_out: int = 0) -> bool:
        message = one_line(record.getMessage())
        if left_out:
            message = f"{message} ({left_out} more of the kind were left out since the last line)"
        record.msg, record.args = message, ()
        return True


_LIMITER = Limiter()


def limit() -> None:
    """Limit the lines of all brokers of this process. A broker that starts begins with nothing left out."""
    _LIMITER.forget()
    for name in LIMITED:
        logging.getLogger(name).addFilter(_LIMITER)


def set_up(log_format: str = "text", level: str = "INFO", node_id: int | None = None) -> None:
    """Send Ottla's log entries to standard error in one of `FORMATS`; with `node_id` they say which broker's they are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(node_id) if log_format == "json" else _Text(node_id))
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _OfBroker(logging.Formatter):
    def __init__(self, node_id: int | None) -> None:
        super().__init__()
        self.node_id = node_id


class _Text(_OfBroker):
    def format(self, record: logging.LogRecord) -> str:
        whose = "" if self.node_id is None else f"[{self.node_id}]"
        line = f"{_when(record)} {record.levelname:<7} {record.name}{whose}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(_OfBroker):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"time": _when(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if self.node_id is not None:
            fields["broker"] = str(self.node_id)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)

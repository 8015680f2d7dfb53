"""The log output of Ottla: one readable line per event, or one JSON object for programs. Repeated lines are counted.

A peer or a full disk can cause a line many times. A record logged with `extra={"cause": "<key>"}` is passed once per cause and
second, or `most` times if `extra` has that number. The next line of the cause contains the number of omitted lines.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

FORMATS = ("text", "json")

LIMITED = (
    "ottla.authorizer", "ottla.broker", "ottla.cluster", "ottla.console", "ottla.coord", "ottla.log", "ottla.net", "ottla.records",
    "ottla.registry", "ottla.schema_registry", "ottla.web", "ottla.zookeeper",
)  # fmt: skip
"""The loggers of a broker and of the servers beside it. Each gets the filter: one does not apply to the loggers below its own."""

MOST_CAUSES = 1000


LONGEST = 10_000
"""The limit on the characters of one message. A name in a message can have 32 767 bytes."""


def one_line(message: str) -> str:
    """Return a message without line breaks and control characters, cut off after `LONGEST` characters."""
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}… ({len(message)} characters)"
    if message.isprintable():
        return message
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in message)


class Limiter(logging.Filter):
    """A thread-safe filter that passes one record per cause and second, or `most` if the record has that attribute.

    A record without a cause always passes. A passed record is made a single line, because it can contain names that clients chose.
    The seconds are measured by the records' own times. Above `MOST_CAUSES` causes, the oldest cause is removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, tuple[float, int, int]] = {}
        """cause -> (start of its second, lines passed in that second, lines omitted since the last passed line)"""
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Remove all causes, so that the next record of every cause passes."""
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
            message = f"{message} ({left_out} similar messages were left out since the last line)"
        record.msg, record.args = message, ()
        return True


_LIMITER = Limiter()


def limit() -> None:
    """Limit the log lines of all brokers of this process. Each call, at the start of a broker, resets the counts."""
    _LIMITER.forget()
    for name in LIMITED:
        logging.getLogger(name).addFilter(_LIMITER)


def set_up(log_format: str = "text", level: str = "INFO", node_id: int | None = None) -> None:
    """Send Ottla's log entries to standard error in one of `FORMATS`. If `node_id` is given, each entry contains it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(node_id) if log_format == "json" else _Text(node_id))
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _when(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.created * 1000) % 1000:03}Z"


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
        import json

        return json.dumps(fields, ensure_ascii=False)

"""Every broker that a test starts keeps house each second, and is watched: an error in its log fails the test that it came with.

A test that brings errors about names them: `@pytest.mark.expects_errors("the partition is offline")`, with regular expressions for
what the entries say. Settings that a test gives go before those given here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla.net.process import embedded_broker
from ottla.testing import BrokerProcess

HOUSEKEEPING = {
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
    "log.flush.offset.checkpoint.interval.ms": 1000,
    "offsets.retention.check.interval.ms": 1000,
}
"""What a broker does by itself, every second."""

SERVED = {**HOUSEKEEPING, "log.retention.ms": -1}
"""For brokers in processes of their own: tests write records of long ago to them, and read them later."""

ENTRY = re.compile(r"(?=^(?:\d{4}-\d\d-\d\dT\S+ [A-Z]+ |\{))", re.MULTILINE)
BAD = re.compile(r"^\S+ (?:ERROR|CRITICAL)|\"level\": \"(?:ERROR|CRITICAL)\"|^Traceback \(most recent", re.MULTILINE)


def kept(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """A broker's settings by Kafka's names, with quick housekeeping where they say nothing of it."""
    return {**HOUSEKEEPING, **(settings or {})}


def served(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same for a broker in a process of its own, or an Apache Kafka beside it."""
    return {**SERVED, **(settings or {})}


class _Handler(logging.Handler):
    """Keeps what brokers of this process say, from errors on."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.entries: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("ottla.client"):
            self.entries.append(self.format(record))


class Watch:
    """The logs of all brokers since they were looked at last."""

    def __init__(self) -> None:
        self._handler = _Handler()
        self._served: dict[BrokerProcess, int] = {}

    def add(self, broker: BrokerProcess) -> None:
        """Look at what this broker writes from now on."""
        self._served[broker] = 0

    def install(self) -> None:
        """Have every broker that this process starts from now on keep house, and be watched."""
        serving, own = BrokerProcess.__init__, embedded_broker.Broker.__init__
        watch = self

        def serve(self: BrokerProcess, data_dir: Path | str, settings: Mapping[str, Any] | None = None, **others: Any) -> None:
            serving(self, data_dir, served(settings), **others)
            watch.add(self)

        def embed(self: embedded_broker.Broker, data_dir: str | None = None, **settings: Any) -> None:
            housekeeping = {name.replace(".", "_"): value for name, value in HOUSEKEEPING.items()}
            own(self, data_dir, **{**housekeeping, **settings})

        BrokerProcess.__init__ = serve  # type: ignore[method-assign]  # takes the same, settings by position or by name
        embedded_broker.Broker.__init__ = embed  # type: ignore[method-assign]  # takes the same, settings by name

    def errors(self) -> Iterator[str]:
        """The entries that speak of errors or show a traceback, each once."""
        for name in ("ottla", "asyncio"):
            logger = logging.getLogger(name)
            if self._handler not in logger.handlers:
                logger.addHandler(self._handler)
        entries, self._handler.entries = self._handler.entries, []
        yield from entries
        for broker, seen in list(self._served.items()):
            written = broker.log_path.read_bytes() if broker.log_path.exists() else b""
            self._served[broker] = len(written)
            yield from bad_entries(written[seen:].decode(errors="replace"))
            if not broker.is_running:
                del self._served[broker]


def bad_entries(log: str) -> Iterator[str]:
    """Of what a broker wrote, the entries that speak of errors or show a traceback."""
    return (entry for entry in ENTRY.split(log) if BAD.search(entry))


def unexpected(entries: Iterator[str], expected: list[str]) -> list[str]:
    """Those that no pattern speaks of."""
    return [entry for entry in entries if not any(re.search(pattern, entry) for pattern in expected)]

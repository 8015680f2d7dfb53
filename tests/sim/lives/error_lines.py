"""What brokers say at ERROR: nothing that a world does to them is a reason for it, unless the world itself names one.

Knows no brokers; every logger of the project is heard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PROJECT = "ottla"


class ErrorLines(logging.Handler):
    """Keeps the first lines at ERROR and above that are not `expected(message)`."""

    MOST = 3

    def __init__(self, expected: Callable[[str], bool]) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._expected = expected

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info is not None and record.exc_info[0] is not None:
            message += f" ({record.exc_info[0].__name__}: {record.exc_info[1]})"
        if len(self.lines) < self.MOST and not self._expected(message):
            self.lines.append(f"{record.levelname} {record.name}: {message}")


@contextmanager
def error_lines(expected: Callable[[str], bool] = lambda message: False) -> Iterator[ErrorLines]:
    """Hear what the project's loggers say, even where logging is disabled otherwise."""
    logger, heard, disabled = logging.getLogger(PROJECT), ErrorLines(expected), logging.root.manager.disable
    logging.disable(min(disabled, logging.WARNING))
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logging.disable(disabled)

"""Retries of one operation until it succeeds: pauses grow, and each reason is logged once.

Depends on neither the operation nor the clock.
"""

from __future__ import annotations

import logging
from typing import Final

MOST_REASONS: Final = 100
"""Upper limit of reasons logged until the operation succeeds, because a reason can contain a part that differs each time."""


class Repeats:
    """The growing pauses between retries of one operation, which double up to `most_ms`, and the reasons already logged."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = self._next_ms = first_ms
        self._most_ms = most_ms
        self._told: set[str] = set()

    def pause_ms(self) -> int:
        """Return the pause before the next retry, in ms."""
        pause_ms, self._next_ms = self._next_ms, min(2 * self._next_ms, self._most_ms)
        return pause_ms

    def log_once(self, log: logging.Logger, level: int, sentence: str, *values: object) -> None:
        """Log the reason for a retry, once until the operation succeeds."""
        told = sentence % values
        if told not in self._told and len(self._told) < MOST_REASONS:
            self._told.add(told)
            log.log(level, sentence, *values)

    def over(self) -> None:
        """Record that the operation succeeded, so that the next retry begins with a short pause again."""
        self._next_ms = self._first_ms
        self._told.clear()

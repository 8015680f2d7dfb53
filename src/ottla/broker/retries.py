"""A question that is repeated until it is answered: the pauses grow, and each reason for another one is logged once.

Knows neither the question nor time.
"""

from __future__ import annotations

import logging
from typing import Final

MOST_REASONS: Final = 100
"""How many reasons are logged until the question is answered: a reason may contain what differs each time."""


class Repeats:
    """The pauses between repetitions of one question, which double up to `most_ms`, and the reasons that were logged."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = self._next_ms = first_ms
        self._most_ms = most_ms
        self._told: set[str] = set()

    def pause_ms(self) -> int:
        """Return the pause before the next repetition."""
        pause_ms, self._next_ms = self._next_ms, min(2 * self._next_ms, self._most_ms)
        return pause_ms

    def tell(self, log: logging.Logger, level: int, sentence: str, *values: object) -> None:
        """Log the reason for another repetition, unless it was logged since the question was answered last."""
        told = sentence % values
        if told not in self._told and len(self._told) < MOST_REASONS:
            self._told.add(told)
            log.log(level, sentence, *values)

    def over(self) -> None:
        """Begin with short pauses again: the question was answered."""
        self._next_ms = self._first_ms
        self._told.clear()

"""A question that is repeated until it is answered: the pauses grow, and each reason for another one is logged once.

Knows neither the question nor time.
"""

from __future__ import annotations

import logging


class Repeats:
    """The pauses between repetitions of one question, which double up to `most_ms`, and the reason that was logged last."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = self._next_ms = first_ms
        self._most_ms = most_ms
        self._told = ""

    def pause_ms(self) -> int:
        """Return the pause before the next repetition."""
        pause_ms, self._next_ms = self._next_ms, min(2 * self._next_ms, self._most_ms)
        return pause_ms

    def tell(self, log: logging.Logger, level: int, sentence: str, *values: object) -> None:
        """Log the reason for another repetition, unless it was the reason of the last one as well."""
        told = sentence % values
        if told != self._told:
            self._told = told
            log.log(level, sentence, *values)

    def over(self) -> None:
        """Begin with short pauses again: the question was answered."""
        self._next_ms = self._first_ms
        self._told = ""

"""The pauses between the tries of a call, which grow exponentially, with jitter (KIP-580).

So clients whose broker is overloaded or away leave it time, and do not come back together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

JITTER: Final = 0.2
"""The part by which a pause is longer or shorter at random."""
MOST_DOUBLINGS: Final = 30


class RetryPauses(NamedTuple):
    """The pauses of calls: the first of `first_ms`, each following one twice as long, none longer than `longest_ms`."""

    first_ms: int
    longest_ms: int

    @property
    def least_ms(self) -> int:
        """Return the shortest pause: `longest_ms`, if that is smaller than `first_ms`, as in Kafka's clients."""
        return min(self.first_ms, self.longest_ms)

    def after(self, tries: int, left_ms: int, random: float) -> int:
        """Return the pause, in ms, after so many tries. `random` is a number from 0 to 1, and `left_ms` the time left for the call.

        Shortly before the end of that time, the pause is shorter, so that the call tries again `least_ms` before it.
        """
        grown = min(self.first_ms << min(tries - 1, MOST_DOUBLINGS), self.longest_ms)
        return max(self.least_ms, min(round(grown * (1 + JITTER * (2 * random - 1))), left_ms - self.least_ms))

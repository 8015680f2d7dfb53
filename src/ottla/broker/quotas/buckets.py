"""A token bucket for the use of a quota. Receives the time as an argument, and is independent of what it counts."""

from __future__ import annotations

from math import ceil
from typing import Final

MS: Final = 1000.0
FOR_EVER_MS: Final = 1 << 40
LONGEST_TOLD_MS: Final = (1 << 31) - 1


class TokenBucket:
    """A token bucket for a quota: it receives `per_second` tokens, up to `most`. Taking more than it contains leaves a debt.

    A new bucket is full unless `tokens` is given.
    """

    __slots__ = ("_at_ms", "_tokens", "most", "per_second")

    def __init__(self, per_second: float, most: float, now_ms: int, tokens: float | None = None) -> None:
        self.per_second = per_second
        self.most = most
        self._tokens = most if tokens is None else tokens
        self._at_ms = now_ms

    def use(self, amount: float, now_ms: int) -> None:
        self._tokens = self.tokens(now_ms) - amount

    def tokens(self, now_ms: int) -> float:
        """Return the tokens in the bucket; a negative number is a debt."""
        if now_ms > self._at_ms:
            self._tokens = min(self.most, self._tokens + self.per_second * (now_ms - self._at_ms) / MS)
            self._at_ms = now_ms
        return self._tokens

    def wait_ms(self, now_ms: int) -> int:
        """Return the time until the bucket contains a whole token, in ms."""
        return max(0, ceil(min((1 - self.tokens(now_ms)) / self.per_second * MS, FOR_EVER_MS))) if self.per_second else FOR_EVER_MS

    def debt_ms(self, now_ms: int) -> int:
        """Return the time until the debt is paid, in ms; 0 without a debt, and at most the largest number in a response."""
        left = self.tokens(now_ms)
        if left >= 0:
            return 0
        # The rate of a quota near the smallest positive float becomes 0.
        return ceil(min(-left / self.per_second * MS, LONGEST_TOLD_MS)) if self.per_second else LONGEST_TOLD_MS

"""Values recorded over recent time windows, as Kafka's clients sample them: rates, averages and extremes.

Times are arguments, in ms. The cost of a recording does not grow with the number of values.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf, nan
from typing import Final, NamedTuple

WINDOW_MS: Final = 30_000
WINDOWS: Final = 2


class Sampling(NamedTuple):
    """The length of a window in ms, and the number of windows that count: `metrics_sample_window_ms`, `metrics_num_samples`."""

    window_ms: int = WINDOW_MS
    windows: int = WINDOWS


@dataclass(frozen=True, slots=True)
class _Window:
    """The values of one window."""

    start_ms: float
    total: float
    count: int
    least: float
    most: float


class Samples:
    """The values of one quantity: `total` and `count` since the start, and statistics of recent windows.

    A window begins with the first value after the end of the previous window. `last_ms` is the time of the last value, or None.
    """

    __slots__ = ("_closed", "_count", "_least", "_most", "_sampling", "_start_ms", "_total", "count", "last_ms", "total")

    def __init__(self, sampling: Sampling, now_ms: float) -> None:
        self.total: float = 0
        self.count = 0
        self.last_ms: float | None = None
        self._sampling = sampling
        self._closed: deque[_Window] = deque(maxlen=sampling.windows - 1)
        self._begin(now_ms)

    def _begin(self, now_ms: float) -> None:
        self._start_ms = now_ms
        self._total: float = 0
        self._count = 0
        self._least, self._most = inf, -inf

    def record(self, value: float, now_ms: float) -> None:
        """Add a value."""
        if now_ms - self._start_ms >= self._sampling.window_ms:
            self._closed.append(self._window())
            self._begin(now_ms)
        self.last_ms = now_ms
        self.total += value
        self.count += 1
        self._total += value
        self._count += 1
        if value > self._most:
            self._most = value
        if value < self._least:
            self._least = value

    def _window(self) -> _Window:
        return _Window(self._start_ms, self._total, self._count, self._least, self._most)

    def _recent(self, now_ms: float) -> list[_Window]:
        """Return the windows that count at this time, the oldest first."""
        oldest_ms = now_ms - self._sampling.windows * self._sampling.window_ms
        return [window for window in (*self._closed, self._window()) if window.start_ms > oldest_ms]

    def _per_second(self, amount: float, recent: list[_Window], now_ms: float) -> float:
        """Return an amount per second. All windows but the last count with their full length, as in Kafka's clients."""
        window_ms = self._sampling.window_ms
        elapsed_ms = now_ms - recent[0].start_ms if recent else 0
        elapsed_ms += max(0, self._sampling.windows - 1 - int(elapsed_ms // window_ms)) * window_ms
        return amount * 1000 / elapsed_ms if elapsed_ms else 0.0

    def rate(self, now_ms: float) -> float:
        """Return the sum of recent values per second."""
        recent = self._recent(now_ms)
        return self._per_second(sum(window.total for window in recent), recent, now_ms)

    def frequency(self, now_ms: float) -> float:
        """Return the number of recent values per second."""
        recent = self._recent(now_ms)
        return self._per_second(sum(window.count for window in recent), recent, now_ms)

    def average(self, now_ms: float) -> float:
        """Return the average of recent values; NaN without values."""
        recent = self._recent(now_ms)
        count = sum(window.count for window in recent)
        return sum(window.total for window in recent) / count if count else nan

    def most(self, now_ms: float) -> float:
        """Return the largest recent value; NaN without values."""
        return max((window.most for window in self._recent(now_ms) if window.count), default=nan)

    def least(self, now_ms: float) -> float:
        """Return the smallest recent value; NaN without values."""
        return min((window.least for window in self._recent(now_ms) if window.count), default=nan)

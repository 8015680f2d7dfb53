"""Distributions from the cells of histograms: quantiles of the last minutes, and buckets for Prometheus.

The cells are counts of durations in buckets, four in each octave from `first_ns` on, then the sum of all durations in ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.metrics.declaration import Distribution

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of Kafka's own histograms."""
PER_OCTAVE: Final = 4
"""Buckets from a duration to its double."""
WINDOW_MS: Final = 60_000
"""The length of a window, in ms. A quantile covers the durations of the last one to two windows."""
NS_PER_S: Final = 1_000_000_000


def limits_ns(buckets: int, first_ns: int) -> list[int]:
    """Return the upper limits of the buckets, in ns, without the last one, which has none."""
    limits = [first_ns]
    for index in range(buckets - 2):
        octave, quarter = divmod(index, PER_OCTAVE)
        limits.append((first_ns << octave) * (PER_OCTAVE + quarter + 1) // PER_OCTAVE)
    return limits


def quantile_s(counts: Sequence[int], limits: Sequence[int], quantile: float) -> float:
    """Return a quantile of the durations in s, by linear interpolation within its bucket; 0 without any duration."""
    rank = quantile * sum(counts)
    if not rank:
        return 0.0
    below = 0
    for index, count in enumerate(counts):
        if count and below + count >= rank:
            low = limits[index - 1] if index else 0
            high = limits[index] if index < len(limits) else low
            return (low + (high - low) * (rank - below) / count) / NS_PER_S
        below += count
    return limits[-1] / NS_PER_S


class RecentDurations:
    """The quantiles of one histogram in the last minutes. Its cells are copied only when they are read."""

    def __init__(self, buckets: int, first_ns: int) -> None:
        self._limits = limits_ns(buckets, first_ns)
        self._before = self._next = [0] * buckets
        self._next_ms: int | None = None

    def distribution(self, cells: Sequence[int], now_ms: int) -> Distribution:
        """Return the distribution of a histogram. `now_ms` is a time of the monotonic clock."""
        counts = list(cells[: len(self._before)])
        if self._next_ms is None:
            self._next_ms = now_ms
        elif now_ms - self._next_ms >= WINDOW_MS:
            self._before, self._next, self._next_ms = self._next, counts, now_ms
        recent = [count - before for count, before in zip(counts, self._before, strict=True)]
        quantiles = [(quantile, quantile_s(recent, self._limits, quantile)) for quantile in QUANTILES]
        return Distribution(self._octaves(counts), cells[len(counts)] / NS_PER_S, quantiles)

    def _octaves(self, counts: list[int]) -> list[tuple[float, int]]:
        """Return (upper limit in s, number of durations up to it) for each octave."""
        found, total = list[tuple[float, int]](), 0
        for index, count in enumerate(counts[:-1]):
            total += count
            if index % PER_OCTAVE == 0:
                found.append((self._limits[index] / NS_PER_S, total))
        found.append((float("inf"), total + counts[-1]))
        return found

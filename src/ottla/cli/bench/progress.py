"""The progress of a load while it runs: a line each second on standard error, with the figures since the line before."""

from __future__ import annotations

import sys
import time

from ottla.cli.bench.latencies import LatencyHistogram

EVERY_S = 1.0


class LoadProgress:
    """The figures since the last line. Without `is_shown`, nothing is printed."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._since = time.monotonic()
        self._records = self._bytes = 0
        self._latencies = LatencyHistogram()

    def add(self, records: int, in_bytes: int, latency_s: float) -> None:
        """Add records that were sent or fetched together."""
        self._records += records
        self._bytes += in_bytes
        self._latencies.add(latency_s, records)

    def show_if_due(self) -> None:
        """Print a line if the last one is a second old."""
        now = time.monotonic()
        elapsed = now - self._since
        if not self._is_shown or elapsed < EVERY_S:
            return
        rates = f"{self._records / elapsed:,.0f} records/s, {self._bytes / 1e6 / elapsed:,.2f} MB/s"
        latencies = self._latencies
        self._since, self._records, self._bytes, self._latencies = now, 0, 0, LatencyHistogram()
        print(f"{rates}, avg {latencies.mean_ms:,.1f} ms, max {latencies.max_ms:,.1f} ms", file=sys.stderr, flush=True)

"""Latencies of many records in little memory, their percentiles, and the report of a load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ottla.cli.command.output import as_lines, print_lines

KEPT_BITS = 10
"""The leading bits of a latency in microseconds that a histogram keeps: percentiles are at most 0.2 % too low."""
PERCENTILES = (50, 95, 99, 99.9)


class LatencyHistogram:
    """Latencies in seconds: their number, mean and maximum, and their percentiles, which are approximate."""

    def __init__(self) -> None:
        self.count = 0
        self._sum_s = self._max_s = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, latency_s: float, count: int = 1) -> None:
        """Add `count` records with the same latency."""
        us = int(latency_s * 1_000_000)
        dropped = max(0, us.bit_length() - KEPT_BITS)
        self._buckets[us >> dropped << dropped] += count
        self.count += count
        self._sum_s += latency_s * count
        self._max_s = max(self._max_s, latency_s)

    @property
    def mean_ms(self) -> float:
        return self._sum_s / self.count * 1000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self._max_s * 1000

    def percentile_ms(self, percent: float) -> float:
        """Return the latency in ms that `percent` of all records do not exceed; 0 without records."""
        wanted, passed = self.count * percent / 100, 0
        for us in sorted(self._buckets):
            passed += self._buckets[us]
            if passed >= wanted:
                return us / 1000
        return 0.0

    def row(self) -> dict[str, float]:
        """Return the figures in ms, by name."""
        percentiles = {f"p{percent:g}": self.percentile_ms(percent) for percent in PERCENTILES}
        found = {"avg": self.mean_ms, **percentiles, "max": self.max_ms}
        return {name: round(value, 3) for name, value in found.items()}


class LoadReport:
    """The figures of a load at its end, as lines for people or as one JSON object."""

    def __init__(self, topic: str, records: int, in_bytes: int, seconds: float) -> None:
        self._topic, self._records, self._bytes = topic, records, in_bytes
        self._seconds = max(seconds, 1e-6)

    def show(self, latencies: LatencyHistogram, latency_name: str, others: Mapping[str, float], *, as_json: bool) -> None:
        """Print the report. `latency_name` names the measured latencies, and `others` has further figures in ms, by name."""
        record_rate, byte_rate = self._records / self._seconds, self._bytes / self._seconds
        if as_json:
            row: dict[str, Any] = {
                "topic": self._topic,
                "records": self._records,
                "bytes": self._bytes,
                "seconds": round(self._seconds, 3),
                "records_per_second": round(record_rate, 1),
                "bytes_per_second": round(byte_rate),
                **{f"{name.replace(' ', '_')}_ms": value for name, value in others.items()},
                f"{latency_name}_ms": latencies.row(),
            }
            print_lines(as_lines([row]))
            return
        lines = [
            f"{self._records:,} records of {self._topic} in {self._seconds:.2f} s",
            f"{record_rate:,.0f} records/s, {byte_rate / 1e6:,.2f} MB/s",
            *(f"{name} {value:,.1f} ms" for name, value in others.items()),
            f"{latency_name}: " + ", ".join(f"{name} {value:,.2f} ms" for name, value in latencies.row().items()),
        ]
        print_lines(lines)

"""What came of one attack on one broker, and what is to be said against it. Pure: samples in, figures and sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any, NamedTuple

from tests.siege.innocent import EVERY_S, Sample

MOST_P99_MS = 100.0
MOST_MAX_MS = 500.0
MOST_MEMORY_MB = 300.0
MOST_STOP_S = 5.0
MOST_LINES_A_SECOND = 20


class Latencies(NamedTuple):
    """Of the records sent in some stretch of time: how many, how many failed, how many were due and not sent; p50, p99, max."""

    sent: int
    failed: int
    missed: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def latencies(samples: Sequence[Sample], began: float, ended: float) -> Latencies:
    """Figures of what was sent from `began` to `ended`. A record that failed counts with the time until that was known."""
    within = [sample for sample in samples if began <= sample.sent_at < ended]
    took_ms = sorted((sample.took_s if sample.is_good else -1 - sample.took_s) * 1000 for sample in within)
    due = int((ended - began) / EVERY_S)
    failed = sum(not sample.is_good for sample in within)
    return Latencies(
        len(within), failed, max(0, due - len(within)), rank(took_ms, 0.5), rank(took_ms, 0.99), took_ms[-1] if took_ms else 0.0
    )


def rank(ordered: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed; 0 of none."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@dataclass
class Figures:
    """One row of one broker. `trouble`: why there are no figures, or what else went wrong."""

    during: Latencies | None = None
    after: Latencies | None = None
    peak_mb: float | None = None
    log_lines: int = 0
    log_bytes: int = 0
    offline: list[str] = field(default_factory=list)
    lost: int = 0
    acknowledged: int = 0
    stop_s: float | None = None
    trouble: list[str] = field(default_factory=list)
    did: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        made = asdict(self)
        for name in ("during", "after"):
            found: Latencies | None = getattr(self, name)
            made[name] = None if found is None else found._asdict()
        return made


def complaints(ours: Figures, theirs: Figures | None, seconds: float) -> list[str]:
    """What a row misses of the goal; empty if it is met. `theirs`: of the peer under the same attack."""
    during = ours.during
    if during is None:
        return ours.trouble
    best_ms = theirs.during.p99_ms if theirs is not None and theirs.during is not None else inf
    checks = (
        (during.p99_ms > MOST_P99_MS, f"p99 {during.p99_ms:.0f} ms"),
        (during.p99_ms > best_ms, f"p99 {during.p99_ms:.1f} ms, the peer's {best_ms:.1f}"),
        (during.max_ms > MOST_MAX_MS, f"max {during.max_ms:.0f} ms"),
        (during.failed > 0, f"{during.failed} records failed"),
        *_afterwards(ours.after),
        (ours.peak_mb is not None and ours.peak_mb >= MOST_MEMORY_MB, f"{ours.peak_mb or 0:.0f} MB"),
        (ours.log_lines > MOST_LINES_A_SECOND * seconds, f"{ours.log_lines} log lines"),
        (len(ours.offline) > 0, f"{len(ours.offline)} partitions offline"),
        (ours.lost > 0, f"{ours.lost} acknowledged records lost"),
        (ours.stop_s is not None and ours.stop_s > MOST_STOP_S, f"stopped after {ours.stop_s or 0:.0f} s"),
    )
    return [*ours.trouble, *(sentence for is_missed, sentence in checks if is_missed)]


def _afterwards(after: Latencies | None) -> list[tuple[bool, str]]:
    if after is None:
        return []
    return [
        (not after.sent, "no answer in the seconds after"),
        (after.p99_ms > MOST_P99_MS, f"p99 {after.p99_ms:.0f} ms in the seconds after"),
    ]

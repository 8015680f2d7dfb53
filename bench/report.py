"""Medians and ratios as a table that people read and a diff shows."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import psutil

CLUSTER_CPU = {"100 B": 0.5, "1 KB": 0.35, "100 B, ready-made batches": 0.35}
TARGETS = {
    "100 B produce, records/s": (">=", 1.5),
    "1 KB produce, records/s": (">=", 0.8),
    "one-record requests, 50 in flight, requests/s": (">=", 6.0),
    "produce acks=1, p99 ms": ("<=", 1.0),
    "produce acks=all, p50 ms": ("<=", 0.6),
    "produce acks=all, p99 ms": ("<=", 0.3),
    "100 B broker CPU, s per million in": ("<=", 0.15),
    "100 B broker CPU, s per million in and out": ("<=", 0.3),
    "start to first answer, s": ("<=", 0.1),
    "resident memory after load, MB": ("<=", 0.12),
    "Spark read 100 B → count, rows/s": (">=", 3.0),
    "Spark read 1 KB → count, rows/s": (">=", 3.0),
    "Spark topic → topic 100 B, rows/s": (">=", 2.0),
    "Spark trigger of 20 rows, p50 ms": ("<=", 0.7),
    "Spark read JSON of 120 B → typed columns, rows/s": (">=", 2.0),
    "offset commits, one connection, 50 in flight, requests/s": (">=", 3.0),
    "offset commits from the page cache, one connection, 50 in flight, requests/s": (">=", 3.0),
    "offset commits, 50 members, one in flight each, requests/s": (">=", 1.0),
    "offset commits, 50 members, one in flight each, p99 ms": ("<=", 1.0),
    "offset commits from the page cache, 50 members, one in flight each, requests/s": (">=", 1.5),
    "offset commits from the page cache, 50 members, one in flight each, p99 ms": ("<=", 1.0),
    "transactions of 10 records of 100 B, one producer, transactions/s": (">=", 2.0),
    "transactions of 10 records of 100 B, one producer, broker CPU, s per thousand": ("<=", 0.5),
    "transactions of 10 records of 100 B, 20 producers, transactions/s": (">=", 2.0),
    "transactions of 10 records of 100 B, 20 producers, broker CPU, s per thousand": ("<=", 0.5),
    "transactions of 10 records of 100 B from the page cache, one producer, transactions/s": (">=", 4.0),
    "transactions of 10 records of 100 B from the page cache, 20 producers, transactions/s": (">=", 4.0),
    "1 KB over TLS produce, records/s": (">=", 0.9),
    "1 KB over TLS consume, records/s": (">=", 0.9),
    "1 KB over TLS broker CPU, s per million in and out": ("<=", 1.0),
    "1 KB over TLS produce, ready-made batches, records/s": (">=", 0.9),
    "SCRAM-SHA-256 logins/s": (">=", 1.0),
    "100 members join a classic group, s": ("<=", 1.0),
    **{f"1000 members of a {kind} group settle, s": ("<=", 1.0) for kind in ("consumer", "share", "streams")},
    **{
        f"{records}, acks=all{where}, {figure}": wanted
        for records in ("100 B", "1 KB", "100 B, ready-made batches")
        for where in ("", " from the page cache")
        for figure, wanted in {"records/s": (">=", 1.5), "broker CPU, s per million": ("<=", CLUSTER_CPU[records])}.items()
    },
    "one record at a time, acks=all, p50 ms": ("<=", 1.0),
    "one record at a time, acks=all, p99 ms": ("<=", 1.0),
    "one record at a time, acks=all from the page cache, p99 ms": ("<=", 1.0),
    "resident memory of all brokers after load, MB": ("<=", 0.1),
    "failover of a leader of 1000 partitions, s": ("<=", 0.5),
    "controller start with 10000 partitions, s": ("<=", 0.5),
    "one-record requests over raw sockets, requests/s": (">=", 1.7),
    **{
        f"share consumption of 100 B{where}, {members}, {figure}": wanted
        for members in ("1 member", "8 members")
        for where in ("", " from the page cache")
        for figure, wanted in {"records/s": (">=", 2.0), "broker CPU, s per million": ("<=", 0.5)}.items()
    },
    "one record produced, acquired and acknowledged, p99 ms": ("<=", 0.5),
    **{
        f"word count {guarantee}, {figure}": wanted
        for guarantee in ("at least once", "exactly once", "exactly once from the page cache")
        for figure, wanted in {"words/s": (">=", 1.0), "broker CPU, s per million words": ("<=", 0.5)}.items()
    },
}
"""What Ottla ÷ Apache Kafka is to reach in one run."""

LIMITS = {
    "read_committed, time ÷ that of read_uncommitted": 1.05,
    "start with 100000 groups and 1000000 offsets, s": 10.0,
    "start with 100000 groups and 1000000 offsets, compacted, s": 5.0,
    "start with 10000 transactional ids, s": 1.0,
    "start with 10000 transactional ids, compacted, s": 1.0,
}
"""What Ottla is not to exceed, where nothing else is measured beside it."""


@dataclass
class Results:
    """Every figure of every round, by server."""

    servers: list[str]
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, server: str, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self.rounds.setdefault(name, {}).setdefault(server, []).append(value)

    def median(self, name: str, server: str) -> float | None:
        values = self.rounds.get(name, {}).get(server)
        return median(values) if values else None

    @property
    def has_peer(self) -> bool:
        """Whether Apache Kafka is measured too: what is to be reached is said of it."""
        return any(not name.startswith("Ottla") for name in self.servers)

    def ratio(self, name: str) -> float | None:
        """The first server's figure divided by the second's."""
        if len(self.servers) < 2:
            return None
        ours, theirs = (self.median(name, server) for server in self.servers[:2])
        return ours / theirs if ours is not None and theirs else None


def machine() -> str:
    """What everything runs on."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def spread(values: Sequence[float]) -> str:
    """Lowest and highest, where they differ in what is shown."""
    low, high = number(min(values)), number(max(values))
    return "" if low == high else f" ({low} to {high})"


def verdict(name: str, ratio: float | None, figure: float | None = None) -> str:
    if name in LIMITS and figure is not None:
        return f"≤ {LIMITS[name]:g}: {'reached' if figure <= LIMITS[name] else '**missed**'}"
    if name not in TARGETS or ratio is None:
        return ""
    sign, wanted = TARGETS[name]
    reached = ratio >= wanted if sign == ">=" else ratio <= wanted
    return f"{'≥' if sign == '>=' else '≤'} {wanted:g}: {'reached' if reached else '**missed**'}"


def table(results: Results) -> str:
    """Markdown: one line per figure, medians with the range of the rounds, ratio of the first server to the second."""
    head = ["median (range)", *results.servers]
    if len(results.servers) > 1:
        head += ["ratio", "to reach"] if results.has_peer else ["ratio"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, by_server in results.rounds.items():
        cells = [number(results.median(name, s)) + (spread(by_server[s]) if s in by_server else "") for s in results.servers]
        if len(results.servers) > 1:
            ratio = results.ratio(name)
            cells.append(f"{ratio:.2f}" if ratio is not None else "-")
            if results.has_peer:
                cells.append(verdict(name, ratio, results.median(name, results.servers[0])))
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def page(results: Results, machine: str) -> str:
    """The whole of RESULTS.md."""
    notes = "\n".join(f"- {note}" for note in results.notes)
    return f"""# What `make bench` measured last

{machine}. Client and broker share its cores; such figures differ from machine to machine and from hour to hour, so that only the
ratios of one run count. Higher is better for figures per second, lower for all others.

{table(results)}

{notes}
"""

"""What `bench.journal` asks of three brokers at once: acknowledgements after a sync of one record, of many producers, in bulk.

Each load runs on all of them in turn, several times after one that does not count; medians stand side by side.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

import psutil

from bench import raw
from bench.figures import MB, Figure, thousands
from bench.groups import Sizes as GroupSizes
from bench.groups import commits_of_many, find_coordinator
from bench.loads import PARTITIONS as OF_TOPIC
from bench.loads import topic_of
from bench.log_served import PRODUCERS, requests, settled
from bench.servers import Ottla, Server
from bench.transactions import MANY, seconds

ALL: Final = -1
NO_JOURNAL: Final[dict[str, object]] = {"ottla.journal.bytes": 0}
ROUNDS: Final = 3
LATENCIES: Final = 1000
"""One-record requests of a round."""

COMMITS: Final = 10_000
MANY_PARTITIONS: Final = 1000
LATER: Final = 5
"""How often each of the many partitions gets one more record."""

OF_BATCH: Final = 16
"""Records of 1 KB in a batch of 16 KB."""

BATCHES: Final = 6000
IN_FLIGHT: Final = 5
"""As Kafka's own producers have, unless told otherwise."""

TRANSACTIONS: Final = 2000
SECTOR: Final = 512
"""Bytes of a sector in the statistics of a block device, whatever its own sectors have."""


class Sides(NamedTuple):
    """The brokers that are measured: with and without the journal, and another one that does not sync."""

    ours: Ottla
    without: Ottla
    kafka: Server | None

    def all(self) -> list[Server]:
        return [self.ours, self.without, *([] if self.kafka is None else [self.kafka])]


KAFKA, WITHOUT = "Apache Kafka", "without the journal"
Goals = Mapping[str, tuple[str, float]]
"""By the peer's name: ≥ or ≤, and so many times its figure."""


class Taken(NamedTuple):
    """The medians of the figures of one load; None if Apache Kafka is not measured."""

    ours: list[float]
    without: list[float]
    kafka: list[float] | None

    def figure(self, name: str, which: int, goals: Goals, beside: Mapping[str, float] | None = None) -> Figure:
        """A row; `beside` has figures of more peers by their names."""
        peers = {**(beside or {}), WITHOUT: self.without[which]}
        if self.kafka is not None:
            peers[KAFKA] = self.kafka[which]
        said, reached = list[str](), list[bool]()
        for peer, (sign, limit) in goals.items():
            if peer in peers:
                share = self.ours[which] / peers[peer]
                said.append(f"{sign} {limit:g} of {peer}: {share:.2f}")
                reached.append(share >= limit if sign == "≥" else share <= limit)
        limits = "; ".join(f"{peer}: {number(value)}" for peer, value in peers.items())
        return Figure(name, number(self.ours[which]), limits, "; ".join(said), all(reached) if reached else None)


def number(value: float) -> str:
    return thousands(value) if value >= 100 else f"{value:.3g}"


def in_turns(loads: Sequence[Callable[[], Sequence[float]]], rounds: int = ROUNDS, cold: int = 1) -> list[list[float]]:
    """For each load the median of each of its figures, over rounds in which all loads run once; the `cold` first do not count."""
    taken = [[list(load()) for load in loads] for _ in range(cold + rounds)][cold:]
    return [[median(values) for values in zip(*one, strict=True)] for one in zip(*taken, strict=True)]


def on_each(
    sides: Sides, load: Callable[[Server], Sequence[float]], more: Callable[[Server], Sequence[float]] | None = None, cold: int = 1
) -> tuple[Taken, list[float]]:
    """What a load finds on each broker, and what `more` finds on the first one, in the same turns."""
    loads = [partial(load, server) for server in sides.all()] + ([] if more is None else [partial(more, sides.ours)])
    figures = in_turns(loads, cold=cold)
    return Taken(figures[0], figures[1], figures[2] if sides.kafka is not None else None), figures[-1]


# One record at a time


def one_at_a_time(sides: Sides) -> list[Figure]:
    """acks=all beside acks=1: percentiles of each round."""
    every, own = on_each(sides, partial(latencies, acks=ALL), partial(latencies, acks=1), cold=2)
    one, _ = on_each(sides, partial(latencies, acks=1))
    half, late = {"acks=1": ("≤", 2.0), KAFKA: ("≤", 0.6)}, {KAFKA: ("≤", 0.3)}
    return [
        every.figure("acks=all, one record at a time, p50, ms", 0, half, {"acks=1": own[0]}),
        every.figure("acks=all, one record at a time, p99, ms", 1, late, {"acks=1": own[1]}),
        one.figure("acks=1, one record at a time, p50, ms", 0, {}),
        one.figure("acks=1, one record at a time, p99, ms", 1, {KAFKA: ("≤", 1.0)}),
    ]


def latencies(server: Server, *, acks: int) -> list[float]:
    """[p50, p99] in ms."""
    with topic_of(server, 1) as topic:
        cuts = quantiles(raw.one_at_a_time(server.address, topic, LATENCIES, acks=acks), n=100)
    return [cuts[49] * 1000, cuts[98] * 1000]


# Groups and transactions


def groups(sides: Sides) -> list[Figure]:
    """Fifty members, each in a group of its own, that commit again and again."""
    sizes = GroupSizes(commits=COMMITS)
    for server in sides.all():
        find_coordinator(server.address, "bench-one")

    def committed(server: Server) -> list[float]:
        with topic_of(server, 1) as topic:
            return list(commits_of_many(server, topic, sizes).values())

    taken, _ = on_each(sides, committed)
    name = f"offset commits, {sizes.committers} members, one in flight each"
    rate, late = {KAFKA: ("≥", 1.0)}, {KAFKA: ("≤", 1.0)}
    return [taken.figure(f"{name}, requests/s", 0, rate), taken.figure(f"{name}, p99, ms", 2, late)]


def transactions(sides: Sides) -> list[Figure]:
    """Twenty producers with transactions of ten records; two rounds do not count, since Java compiles meanwhile."""

    def made(server: Server) -> list[float]:
        with topic_of(server, OF_TOPIC) as topic:
            took, spent = asyncio.run(seconds(server, topic, MANY, TRANSACTIONS))
        return [TRANSACTIONS / took, spent / TRANSACTIONS * 1000]

    taken, _ = on_each(sides, made, cold=2)
    name = f"transactions of 10 records, {MANY} producers"
    return [
        taken.figure(f"{name}, transactions/s", 0, {KAFKA: ("≥", 2.0)}),
        taken.figure(f"{name}, broker CPU of each, ms", 1, {KAFKA: ("≤", 0.5)}),
    ]


# Many producers, many partitions, many bytes


def producers(sides: Sides) -> list[Figure]:
    """A hundred connections with one request in flight each."""
    taken, own = on_each(sides, partial(requests_of_many, acks=ALL), partial(requests_of_many, acks=1))
    goals = {"acks=1": ("≥", 0.95)}
    return [taken.figure(f"acks=all, {PRODUCERS} producers, requests/s", 0, goals, {"acks=1": own[0]})]


def requests_of_many(server: Server, *, acks: int) -> list[float]:
    """[requests/s]"""
    with topic_of(server, 1) as topic:
        frame = raw.produce_request(topic, raw.batch(bytes(100)), acks=acks)
        return [requests(server.address, frame, PRODUCERS, 1.0)]


def partitions(sides: Sides) -> list[Figure]:
    """One request with one record for each of a thousand partitions; the first on a new topic, then more.

    Apache Kafka is left out: it names leaders of a new topic that refuse their first records for a while.
    """
    taken, own = on_each(sides._replace(kafka=None), partial(to_many, acks=ALL), partial(to_many, acks=1))
    goals = {WITHOUT: ("≤", 0.1)}
    names = (f"acks=all, {which} record of each of {MANY_PARTITIONS} partitions, ms" for which in ("first", "later"))
    return [taken.figure(name, which, goals, {"acks=1": own[which]}) for which, name in enumerate(names)]


def to_many(server: Server, *, acks: int) -> list[float]:
    """[ms of the first request, median ms of later ones]"""
    with topic_of(server, MANY_PARTITIONS) as topic, raw.connect(server.address) as connection:
        frame, took = raw.produce_to_many(topic, raw.batch(bytes(100)), range(MANY_PARTITIONS), acks=acks), []
        for _ in range(1 + LATER):
            began = time.perf_counter()
            connection.sendall(frame)
            answer = raw.reply(connection)
            took.append((time.perf_counter() - began) * 1000)
            raw.check(answer, topic)
    return [took[0], median(took[1:])]


def bulk(sides: Sides) -> list[Figure]:
    """Batches of 16 KB, some in flight on one connection, then ten times as many."""
    found = []
    for in_flight in (IN_FLIGHT, 10 * IN_FLIGHT):
        taken, _ = on_each(sides, partial(produced_in_bulk, in_flight=in_flight))
        name = f"acks=all, 16 KB batches of 1 KB, {in_flight} in flight, MB/s"
        found.append(taken.figure(name, 0, {WITHOUT: ("≥", 1.0)}))
    return found


def produced_in_bulk(server: Server, *, in_flight: int) -> list[float]:
    """[MB/s]"""
    with topic_of(server, 1) as topic:
        took_s = raw.pipelined(server.address, topic, BATCHES, in_flight, OF_BATCH, size=1000, acks=ALL)
    return [BATCHES * OF_BATCH * 1000 / MB / took_s]


# Bytes written


def written(sides: Sides) -> list[Figure]:
    """Bytes that go to the disk for each byte that is appended to a log."""
    for server in (sides.ours, sides.without):
        find_coordinator(server.address, "bench-one")
        with topic_of(server, 1) as topic:
            append_one_at_a_time(server, topic)
    journal_made(sides.ours.data_dir)
    loads: dict[str, Callable[[Ottla, str], int]] = {
        "one record at a time": append_one_at_a_time,
        f"offset commits of {GroupSizes().committers} members": commit,
        f"16 KB batches, {IN_FLIGHT} in flight": append_in_bulk,
    }
    found = []
    for name, load in loads.items():
        ours, without = (bytes_of(server, load) for server in (sides.ours, sides.without))
        alone = f"by the process alone: {number(ours.by_process)} and {number(without.by_process)}"
        found.append(
            Figure(
                f"bytes written for one appended, {name}",
                number(ours.on_device),
                f"{WITHOUT}: {number(without.on_device)}; {alone}",
                "",
                None,
            )
        )
    return found


def journal_made(data: Path) -> None:
    """Return once both files of the journal are there, full of zeros."""
    while not (data / "journal" / "1").exists():
        time.sleep(0.1)
    time.sleep(0.5)


def append_one_at_a_time(server: Ottla, topic: str) -> int:
    raw.one_at_a_time(server.address, topic, LATENCIES, acks=ALL)
    return LATENCIES * len(raw.batch(bytes(100)))


def append_in_bulk(server: Ottla, topic: str) -> int:
    raw.pipelined(server.address, topic, BATCHES, IN_FLIGHT, OF_BATCH, size=1000, acks=ALL)
    return BATCHES * len(raw.batch(bytes(1000), OF_BATCH))


def commit(server: Ottla, topic: str) -> int:
    before = offsets_bytes(server)
    commits_of_many(server, topic, GroupSizes(commits=COMMITS))
    return offsets_bytes(server) - before


def offsets_bytes(server: Ottla) -> int:
    """The size of the logs of committed offsets."""
    return sum(path.stat().st_size for path in server.data_dir.glob("__consumer_offsets-*/*.log"))


class WrittenBytes(NamedTuple):
    """For each byte appended to logs; NaN where the device keeps no statistics."""

    on_device: float
    by_process: float


def bytes_of(server: Ottla, load: Callable[[Ottla, str], int]) -> WrittenBytes:
    """What a load writes, until nothing is left to be written back."""
    with topic_of(server, 1) as topic:
        settled(server.data_dir)
        before = device_bytes(server.data_dir), process_bytes(server.pid)
        appended = load(server, topic)
        settled(server.data_dir)
        after = device_bytes(server.data_dir), process_bytes(server.pid)
    return WrittenBytes(*((late - early) / appended for early, late in zip(before, after, strict=True)))


def device_bytes(path: Path) -> float:
    """All that was written to the block device of this path since it is there."""
    device = os.stat(path).st_dev
    try:
        fields = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text().split()
    except OSError:
        return nan
    return int(fields[6]) * SECTOR


def process_bytes(pid: int) -> int:
    """All that a process has had written, or left in the page cache to be written."""
    return int(psutil.Process(pid).io_counters().write_bytes)

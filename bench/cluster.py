"""`make bench-cluster`: three brokers over a ZooKeeper, of Ottla and of Apache Kafka 3.9.1, under the same loads in turn.

Every partition has a replica on each broker, `min.insync.replicas` is 2, and what is written is acks=all. All processes share the
machine's cores with the client. Prints a table; ratios count, not figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final

import psutil
from confluent_kafka import Producer

from bench.loads import QUIET, Figures
from ottla.testing.cluster import NOBODY, Cluster, ClusterMember, ClusterSeat
from tests.support.kafka_members import KafkaMember
from tests.support.zookeeper import ZooKeeper

BROKERS: Final = 3
RELEASE: Final = "3.9.1"
JVM: Final = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SESSION_MS: Final = 6000
SETTINGS: Final[dict[str, object]] = {
    "min.insync.replicas": 2,
    "zookeeper.session.timeout.ms": SESSION_MS,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": "false",
}
SMALL, LARGE = 100, 1000
HEALED_S: Final = 300


@dataclass(frozen=True)
class ClusterSizes:
    """How much of everything."""

    small_records: int = 1_000_000
    large_records: int = 300_000
    latencies: int = 2_000
    partitions: int = 1000


def cpu_s(cluster: Cluster) -> float:
    """CPU seconds of all brokers so far."""
    times = [psutil.Process(member.pid).cpu_times() for member in cluster.members.values()]
    return float(sum(used.user + used.system for used in times))


def resident_mb(cluster: Cluster) -> float:
    return float(sum(psutil.Process(member.pid).memory_info().rss for member in cluster.members.values())) / 1e6


def created(cluster: Cluster, topic: str, partitions: int) -> float:
    """Seconds until a new topic has all its leaders and replicas in sync."""
    began = time.monotonic()
    with cluster.admin() as admin:
        admin.create_topic(topic, partitions, BROKERS)
    cluster.wait_in_sync(topic, timeout_s=HEALED_S)
    return time.monotonic() - began


def new_producer(cluster: Cluster, linger_ms: int) -> Producer:
    settings = {"bootstrap.servers": cluster.address, "acks": "all", "linger.ms": linger_ms, "message.timeout.ms": 300_000}
    return Producer({**QUIET, **settings, "queue.buffering.max.messages": 4_000_000, "queue.buffering.max.kbytes": 1_000_000})


def written(cluster: Cluster, size: int, count: int) -> Figures:
    """Records a second as they are acknowledged, and the brokers' CPU for a million of them."""
    topic, value, failed = f"records-{size}", bytes(size), list[object]()
    created(cluster, topic, 6)
    producer = new_producer(cluster, linger_ms=5)
    began, used = time.monotonic(), cpu_s(cluster)
    for number in range(count):
        producer.produce(topic, value, partition=number % 6, on_delivery=lambda error, _: failed.append(error) if error else None)
        if not number % 1000:
            producer.poll(0)
    producer.flush(300)
    took_s, used = time.monotonic() - began, cpu_s(cluster) - used
    assert not failed, f"records were refused: {failed[:3]}"
    return {f"{size} B records/s": count / took_s, f"{size} B CPU s per million": used * 1e6 / count}


def one_at_a_time(cluster: Cluster, count: int) -> Figures:
    created(cluster, "single", 1)
    producer, took = new_producer(cluster, linger_ms=0), list[float]()
    for _ in range(count + 100):
        began = time.perf_counter()
        producer.produce("single", bytes(SMALL))
        assert not producer.flush(60), "a record was not acknowledged in a minute"
        took.append((time.perf_counter() - began) * 1000)
    parts = quantiles(took[100:], n=100)
    return {"one at a time p50 ms": parts[49], "one at a time p99 ms": parts[98]}


def failed_over(cluster: Cluster, partitions: int) -> Figures:
    """How long it takes from the SIGKILL of a broker that is not the controller until all partitions have other leaders."""
    made_s = created(cluster, "many", partitions)
    controller = cluster.controller()
    dead = next(node_id for node_id in cluster.members if node_id != controller)
    began = time.monotonic()
    cluster.kill(dead)
    with cluster.admin() as admin:

        def led() -> bool:
            found = admin.describe_topics("many")["many"].partitions.values()
            return all(part.leader not in (NOBODY, dead) for part in found)

        cluster.wait_until(led, timeout_s=HEALED_S)
    return {f"{partitions} partitions made s": made_s, f"failover of {partitions} partitions s": time.monotonic() - began}


def measured(make: Callable[[ClusterSeat], ClusterMember] | None, settings: dict[str, object], sizes: ClusterSizes) -> Figures:
    """All figures of one kind of brokers, started with empty directories."""
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as directory:
        home = Path(directory)
        members = {} if make is None else dict.fromkeys(range(1, BROKERS + 1), make)
        with ZooKeeper(home / "zookeeper", {"tickTime": 1000}) as zookeeper:
            began = time.monotonic()
            registry = f"zookeeper://{zookeeper.address}/bench"
            with Cluster(registry, BROKERS, {**SETTINGS, **settings}, home=home, members=members) as cluster:
                cluster.wait_until(lambda: cluster.controller() in cluster.members, timeout_s=HEALED_S)
                figures = {"started s": time.monotonic() - began}
                figures |= written(cluster, SMALL, sizes.small_records) | written(cluster, LARGE, sizes.large_records)
                figures |= one_at_a_time(cluster, sizes.latencies)
                figures["resident MB"] = resident_mb(cluster)
                return figures | failed_over(cluster, sizes.partitions)


def wanted(name: str) -> tuple[float, bool] | None:
    """What the ratio of a figure has to be, and whether at least; None where there is no target."""
    goals = {"records/s": (1.5, True), "per million": (0.5, False), "p99 ms": (1.0, False), "resident MB": (0.1, False)}
    goals |= {"failover": (0.5, False)}
    return next((goal for word, goal in goals.items() if word in name), None)


def told(ours: Figures, theirs: Figures) -> list[str]:
    """A line for each figure: ours, theirs, the ratio, and what was wanted of it."""
    lines = [f"{'':34}{'Ottla':>12}{'Kafka ' + RELEASE:>14}{'ratio':>8}  wanted"]
    for name, value in ours.items():
        ratio = value / theirs[name] if theirs.get(name) else 0.0
        line = f"{name:34}{value:12.2f}{theirs.get(name, 0.0):14.2f}{ratio:8.2f}"
        if (goal := wanted(name)) and ratio:
            limit, at_least = goal
            reached = ratio >= limit if at_least else ratio <= limit
            line += f"  {'≥' if at_least else '≤'} {limit:g}{'' if reached else '  missed'}"
        lines.append(line)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster")
    parser.add_argument("--divide", type=int, default=1, help="so many times less of everything")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument("--unsynced", action="store_true", help="Ottla answers from the page cache, as Apache Kafka does")
    chosen = parser.parse_args()
    whole = ClusterSizes()
    sizes = ClusterSizes(
        *(value // chosen.divide for value in (whole.small_records, whole.large_records, whole.latencies, whole.partitions))
    )
    theirs = {} if chosen.alone else measured(lambda seat: KafkaMember(seat, RELEASE, JVM), {}, sizes)
    ours = measured(None, {"ottla.acks.all.sync": "false"} if chosen.unsynced else {}, sizes)
    print("\n".join(told(ours, theirs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

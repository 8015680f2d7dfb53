"""What is done to a cluster to measure it: records written with acks=all, brokers killed, controllers replaced.

Every partition has a replica on each broker. A load returns named figures and works on topics of its own.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from bench import raw
from bench.cluster_sides import BROKERS, Side, cpu_s, resident_mb
from bench.loads import QUIET, Figures
from ottla import Admin, KafkaError
from ottla.testing.cluster import NOBODY, Cluster
from ottla.wire.errors import TOPIC_ALREADY_EXISTS

PARTITIONS: Final = 6
BATCH: Final = 1000
"""Records of a ready-made batch."""
ALL: Final = -1
ALL_ACKS: Final = "acks=all"
OF_TOPIC: Final = 1000
"""Partitions."""
HEALED_S: Final = 600
LOOK_S: Final = 0.01
LED: Final = "led"
"""The topic all of whose partitions one broker leads."""
_names = itertools.count(1)


@dataclass(frozen=True)
class ClusterSizes:
    """How much of everything."""

    small_records: int = 1_000_000
    large_records: int = 300_000
    ready_made: int = 2_000_000
    latencies: int = 2_000
    led: int = 1000
    controlled_topics: int = 10
    """Of a thousand partitions."""

    def divided(self, by: int) -> ClusterSizes:
        """So many times less of everything."""
        return ClusterSizes(
            small_records=self.small_records // by,
            large_records=self.large_records // by,
            ready_made=max(BATCH, self.ready_made // by),
            latencies=max(100, self.latencies // by),
            led=max(1, self.led // by),
            controlled_topics=max(1, self.controlled_topics // by),
        )


# Records


def records(side: Side, sizes: ClusterSizes) -> Figures:
    """One round of everything that is written by many requests at a time."""
    return _also_cached(side, lambda configs: _written(side, sizes, configs))


def latencies(side: Side, sizes: ClusterSizes) -> Figures:
    """One round of records that are sent one at a time."""

    def sent(configs: Mapping[str, str] | None) -> Figures:
        with _new_topic(side, 1, configs) as topic:
            return _one_at_a_time(side.cluster, topic, sizes.latencies)

    return _also_cached(side, sent)


def _also_cached(side: Side, load: Callable[[Mapping[str, str] | None], Figures]) -> Figures:
    """The figures of a load; also from the page cache where that is another thing."""
    synced = load(None)
    cached = synced if side.cached is None else load(side.cached)
    return synced | {name.replace(ALL_ACKS, f"{ALL_ACKS} from the page cache"): value for name, value in cached.items()}


def _written(side: Side, sizes: ClusterSizes, configs: Mapping[str, str] | None) -> Figures:
    figures: Figures = {}
    with _new_topic(side, PARTITIONS, configs) as topic:
        figures |= _produced(side.cluster, topic, "100 B", 100, sizes.small_records)
    with _new_topic(side, PARTITIONS, configs) as topic:
        figures |= _produced(side.cluster, topic, "1 KB", 1000, sizes.large_records)
    with _new_topic(side, 1, configs) as topic:
        figures |= _ready_made(side.cluster, topic, sizes.ready_made)
    return figures


@contextmanager
def _new_topic(side: Side, partitions: int, configs: Mapping[str, str] | None) -> Iterator[str]:
    """A topic with all its leaders, replicas in sync, and nothing left to be written back; afterwards it and its files go.

    Else a load would pay for the one before, which was the other cluster's: its pages are written back in the time of this one, and
    memory that a virtual machine never used before costs it several times as much as memory that was free again.
    """
    cluster, name = side.cluster, f"topic-{next(_names)}"
    with cluster.admin() as admin:
        wait_until(lambda: is_created(admin, name, partitions, BROKERS, configs))
    cluster.wait_in_sync(name, timeout_s=HEALED_S)
    os.sync()
    yield name
    with cluster.admin() as admin:
        admin.delete_topics(name)
    wait_until(lambda: not any(side.home.rglob(f"{name}-*")))


def _leader(cluster: Cluster, topic: str) -> str:
    """HOST:PORT of who leads the first partition, once it knows that and takes a record."""
    address = cluster.members[cluster.leader(topic, 0)].address

    def takes() -> bool:
        with suppress(RuntimeError):
            return bool(raw.one_at_a_time(address, topic, 1, acks=ALL))
        return False

    wait_until(takes)
    return address


def _produced(cluster: Cluster, topic: str, label: str, size: int, count: int) -> Figures:
    """By confluent-kafka, until all is acknowledged."""
    value, failed = bytes(size), list[object]()
    settings = {"bootstrap.servers": cluster.address, "acks": "all", "linger.ms": 5, "message.timeout.ms": 300_000}
    producer = Producer({**QUIET, **settings, "queue.buffering.max.messages": 4_000_000, "queue.buffering.max.kbytes": 1_000_000})
    began, used = time.perf_counter(), cpu_s(cluster)
    for number in range(count):
        producer.produce(
            topic, value, partition=number % PARTITIONS, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        if not number % BATCH:
            producer.poll(0)
    producer.flush(300)
    took_s, used = time.perf_counter() - began, cpu_s(cluster) - used
    assert not failed, f"records were refused: {failed[:3]}"
    return {
        f"{label}, {ALL_ACKS}, records/s": count / took_s,
        f"{label}, {ALL_ACKS}, broker CPU, s per million": used * 1e6 / count,
    }


def _ready_made(cluster: Cluster, topic: str, count: int) -> Figures:
    """The same batch of a thousand records again and again over a raw socket: here brokers set the pace."""
    address, used = _leader(cluster, topic), cpu_s(cluster)
    took_s = raw.pipelined(address, topic, count // BATCH, 10, BATCH, acks=ALL)
    used = cpu_s(cluster) - used
    label = "100 B, ready-made batches"
    return {
        f"{label}, {ALL_ACKS}, records/s": count / took_s,
        f"{label}, {ALL_ACKS}, broker CPU, s per million": used * 1e6 / count,
    }


def _one_at_a_time(cluster: Cluster, topic: str, count: int) -> Figures:
    """Each record is sent when the one before is acknowledged."""
    address, used = _leader(cluster, topic), cpu_s(cluster)
    cuts = quantiles(raw.one_at_a_time(address, topic, count, acks=ALL), n=100)
    used = cpu_s(cluster) - used
    label = f"one record at a time, {ALL_ACKS}"
    return {
        f"{label}, p50 ms": cuts[49] * 1e3,
        f"{label}, p99 ms": cuts[98] * 1e3,
        f"{label}, broker CPU, ms per record": used * 1e3 / count,
    }


# Failover


def prepare_failover(side: Side, partitions: int) -> Figures:
    """Make a topic that one broker leads wholly, which is not the controller."""
    cluster, controller = side.cluster, side.cluster.controller()
    others = [node_id for node_id in cluster.members if node_id != controller]
    admin, began = AdminClient({"bootstrap.servers": cluster.address, **QUIET}), time.monotonic()
    assigned = [[*others, controller]] * partitions
    admin.create_topics([NewTopic(LED, partitions, replica_assignment=assigned)])[LED].result(HEALED_S)
    cluster.wait_in_sync(LED, timeout_s=HEALED_S)
    return {f"{partitions} partitions made, s": time.monotonic() - began}


def failed_over(side: Side, partitions: int) -> Figures:
    """How long it takes from the SIGKILL of the leader until all its partitions have another; then it comes back."""
    cluster, dead = side.cluster, side.cluster.leader(LED, 0)
    used = cpu_s(cluster, without=dead)
    began = time.monotonic()
    cluster.kill(dead)
    with cluster.admin() as admin:

        def led() -> bool:
            found = admin.describe_topics(LED)[LED].partitions.values()
            return len(found) == partitions and all(part.leader not in (NOBODY, dead) for part in found)

        wait_until(led)
        took_s, used = time.monotonic() - began, cpu_s(cluster, without=dead) - used
    cluster.start(dead)
    cluster.wait_in_sync(LED, timeout_s=HEALED_S)
    return {f"failover of a leader of {partitions} partitions, s": took_s, "failover, CPU of the other brokers, s": used}


# Controllers


def prepare_controllers(side: Side, topics: int) -> Figures:
    """Make topics of a thousand partitions each."""
    cluster, names, began = side.cluster, [f"controlled-{number}" for number in range(topics)], time.monotonic()
    with cluster.admin() as admin:
        for name in names:
            wait_until(partial(is_created, admin, name, OF_TOPIC, BROKERS))
            cluster.wait_in_sync(name, timeout_s=HEALED_S)
    made_s = time.monotonic() - began
    return {
        f"{topics * OF_TOPIC} partitions made, s": made_s,
        f"resident memory with {topics * OF_TOPIC} partitions, MB": resident_mb(cluster),
    }


def controller_started(side: Side, topics: int) -> Figures:
    """How long it takes after the controller's entry was removed until the next one has given a new topic its leader."""
    cluster, name = side.cluster, f"after-{next(_names)}"
    zookeeper = KazooClient(cluster.registry)
    zookeeper.start()
    with cluster.admin() as admin:
        admin.describe_cluster()
        used, began = cpu_s(cluster), time.monotonic()
        zookeeper.delete("/controller")
        wait_until(lambda: is_created(admin, name, 1, BROKERS))
        wait_until(lambda: admin.describe_topics(name)[name].partitions[0].leader != NOBODY)
        took_s, used = time.monotonic() - began, cpu_s(cluster) - used
    zookeeper.stop()
    zookeeper.close()
    label = f"controller start with {topics * OF_TOPIC} partitions"
    return {f"{label}, s": took_s, f"{label}, CPU of all brokers, s": used}


def is_created(admin: Admin, name: str, partitions: int, replicas: int, configs: Mapping[str, str] | None = None) -> bool:
    """Make a topic, unless it is there; errors are raised, as while there is no controller."""
    try:
        admin.create_topic(name, partitions, replicas, configs)
    except KafkaError as refused:
        if refused.code != TOPIC_ALREADY_EXISTS:
            raise
    return True


def wait_until(happened: Callable[[], bool]) -> None:
    """Return once it has happened; errors that go by count as no."""
    until = time.monotonic() + HEALED_S
    while time.monotonic() < until:
        with suppress(KafkaError, LookupError):
            if happened():
                return
        time.sleep(LOOK_S)
    raise RuntimeError(f"it did not happen in {HEALED_S} s")

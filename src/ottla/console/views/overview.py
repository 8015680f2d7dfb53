"""The overview: brokers, partitions in need, and traffic."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.connection.metadata import TopicInfo
from ottla.console.cluster_session import ClusterSession
from ottla.console.samples import rate, rates
from ottla.errors import KafkaError

MOST_TROUBLED = 20
"""The number of partitions in need, and of busy topics, that are shown."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. `since_ms` is when it began to answer or to be silent. Bytes are -1 if the broker does not say."""

    node_id: int
    address: str
    rack: str
    release: str
    is_controller: bool
    answers: bool
    since_ms: int
    trouble: str
    leads: int
    replicas: int
    disk_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True)
class TroubledPartition:
    """A partition without a leader, or with replicas that are not in sync."""

    topic: str
    partition: int
    leader: int
    out_of_sync: list[int]


@dataclass(frozen=True, slots=True)
class BusyTopic:
    """A topic with its records a second, now and before."""

    name: str
    rate: float
    rates: list[float]


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at a glance. `rates` are the records a second, oldest first; `troubles` sentences about missing parts."""

    cluster_id: str
    brokers: list[BrokerRow]
    silent_brokers: int
    controller_id: int
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    troubled: list[TroubledPartition]
    records: int
    bytes: int
    rate: float | None
    rates: list[float]
    busy: list[BusyTopic]
    groups: int
    troubles: list[str]


async def overview(cluster: ClusterSession) -> Overview:
    """Return the cluster at a glance: brokers, controller, partitions in need, traffic."""
    watch = await cluster.read_brokers()
    troubles = []
    topics: dict[str, TopicInfo] = {}
    try:
        topics = await cluster.topics()
    except KafkaError as error:
        troubles.append(str(error))
    samples = await cluster.read_samples() if topics else cluster.samples
    troubles += cluster.troubles
    troubled = troubled_partitions(topics)
    busy = [(name, rate(points)) for name, points in samples.topics.items() if name in topics]
    active = sorted(((name, now) for name, now in busy if now), key=lambda each: -each[1])
    return Overview(
        cluster_id=watch.cluster_id or "",
        brokers=broker_rows(cluster, topics),
        silent_brokers=sum(not each.answers for each in watch.brokers.values()),
        controller_id=watch.controller_id,
        topics=sum(not topic.is_internal for topic in topics.values()),
        partitions=sum(len(topic.partitions) for topic in topics.values()),
        offline=sum(each.leader < 0 for each in troubled),
        under_replicated=sum(bool(each.out_of_sync) for each in troubled),
        troubled=troubled[:MOST_TROUBLED],
        records=sum(samples.ends.values()) - sum(start for where, start in samples.starts.items() if where in samples.ends),
        bytes=sum(samples.sizes.values()),
        rate=rate(samples.total),
        rates=rates(samples.total),
        busy=[BusyTopic(name, now, rates(samples.topics[name])) for name, now in active[:MOST_TROUBLED]],
        groups=len(samples.committed),
        troubles=list(dict.fromkeys(troubles)),
    )


def broker_rows(cluster: ClusterSession, topics: dict[str, TopicInfo]) -> list[BrokerRow]:
    """Return the brokers with the partitions that they lead and have."""
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in topics.values():
        for partition in topic.partitions.values():
            leads[partition.leader] = leads.get(partition.leader, 0) + 1
            for node_id in partition.replicas:
                replicas[node_id] = replicas.get(node_id, 0) + 1
    watch, disks = cluster.watch, cluster.samples.disk_bytes
    return [
        BrokerRow(
            each.node_id,
            each.address,
            each.rack or "",
            each.release,
            each.node_id == watch.controller_id,
            each.answers,
            each.since_ms,
            each.trouble,
            leads.get(each.node_id, 0),
            replicas.get(each.node_id, 0),
            *disks.get(each.node_id, (-1, -1)),
        )
        for each in sorted(watch.brokers.values(), key=lambda each: each.node_id)
    ]


def troubled_partitions(topics: dict[str, TopicInfo]) -> list[TroubledPartition]:
    """Return the partitions that have no leader, or replicas that are not in sync; the former first."""
    found = [
        TroubledPartition(topic.name, each.partition, each.leader, sorted(set(each.replicas) - set(each.isr)))
        for topic in topics.values()
        for each in topic.partitions.values()
        if each.leader < 0 or len(each.isr) < len(each.replicas)
    ]
    return sorted(found, key=lambda each: (each.leader >= 0, each.topic, each.partition))

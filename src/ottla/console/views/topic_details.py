"""One topic: its partitions, its groups and its traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.topics import id_text
from ottla.client.connection.metadata import NO_TOPIC_ID, PartitionInfo, TopicInfo
from ottla.client.errors import broker_error
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndTimestamp, TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.rows import Pages, cut
from ottla.console.samples import rate, rates
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition. Offsets are None if its leader has not answered."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]
    start: int | None
    end: int | None
    records: int | None


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A group that has committed offsets in the topic or shares its records, and the records that it is behind there."""

    group: str
    lag: int | None


@dataclass(frozen=True, slots=True)
class TopicOverview:
    """One topic. `troubles` are sentences about parts that are missing."""

    name: str
    topic_id: str
    is_internal: bool
    partition_count: int
    replicas: int
    records: int | None
    bytes: int | None
    rate: float | None
    rates: list[float]
    under_replicated: int
    offline: int
    partitions: list[PartitionRow]
    place: Pages
    groups: list[TopicGroup]
    troubles: list[str]


async def known_topic(cluster: ClusterSession, topic: str) -> TopicInfo:
    """Return a topic of the cluster. Raises `UnknownTopic`."""
    found = (await cluster.topics()).get(topic)
    if found is None:
        cluster.forget_topics()
        found = (await cluster.topics()).get(topic)
    if found is None:
        raise broker_error(UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic}", "There is no such topic, or you may not describe it.")
    return found


def _offsets(found: Mapping[TopicPartition, OffsetAndTimestamp] | None) -> dict[int, int]:
    """Return the offsets that leaders have answered, by partition."""
    return {where.partition: at.offset for where, at in (found or {}).items()}


def _row(index: int, found: PartitionInfo, start: int | None, end: int | None) -> PartitionRow:
    replicas, in_sync, offline = list(found.replicas), list(found.isr), list(found.offline_replicas)
    records = end - start if start is not None and end is not None else None
    return PartitionRow(index, found.leader, found.leader_epoch, replicas, in_sync, offline, start, end, records)


async def topic(cluster: ClusterSession, topic: str, page: int = 1) -> TopicOverview:
    """Return one topic with its partitions, the groups that read it, and its traffic."""
    found = await known_topic(cluster, topic)
    samples = await cluster.read_samples()
    indexes, place = cut(sorted(found.partitions), page, len(found.partitions))
    led = [TopicPartition(topic, index) for index in indexes if found.partitions[index].leader >= 0]
    starts = await cluster.part(
        f"starts {topic} {page}", lambda admin: admin.list_offsets(dict.fromkeys(led, EARLIEST_TIMESTAMP), check=False)
    )
    ends = await cluster.part(
        f"ends {topic} {page}", lambda admin: admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP), check=False)
    )
    first_offsets, end_offsets = _offsets(starts.value), _offsets(ends.value)
    rows = [_row(index, found.partitions[index], first_offsets.get(index), end_offsets.get(index)) for index in indexes]
    points = samples.topics.get(topic, ())
    known = [row.records for row in rows if row.records is not None]
    return TopicOverview(
        topic,
        id_text(found.topic_id) if found.topic_id != NO_TOPIC_ID else "",
        found.is_internal,
        len(found.partitions),
        max((len(each.replicas) for each in found.partitions.values()), default=0),
        sum(known) if known and place.pages == 1 else None,
        samples.sizes.get(topic),
        rate(points),
        rates(points),
        sum(len(each.isr) < len(each.replicas) for each in found.partitions.values()),
        sum(each.leader < 0 for each in found.partitions.values()),
        rows,
        place,
        [TopicGroup(name, samples.lag(name, topic)) for name in samples.groups_of(topic)],
        list(dict.fromkeys([*filter(None, (starts.trouble, ends.trouble)), *cluster.troubles])),
    )

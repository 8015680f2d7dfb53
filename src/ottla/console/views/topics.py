"""The list of topics, and the changes of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.topics import NewTopic
from ottla.client.connection.metadata import TopicInfo
from ottla.client.types import TopicPartition
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, PageRefused
from ottla.console.paths import path_of
from ottla.console.rows import Pages, cut, filter_rows, sorted_by
from ottla.console.samples import ClusterSamples, rate
from ottla.console.views.settings_text import settings_of

TOPIC = "/topics/{topic}"
CHANGE_S = 10.0
"""The time, in s, for which a change waits for the cluster."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic. `records`, `bytes` and `rate` (records a second) are None until they are sampled; `lag` is that of
    all its groups."""

    name: str
    partitions: int
    replicas: int
    records: int | None
    bytes: int | None
    rate: float | None
    under_replicated: int
    offline: int
    groups: list[str]
    lag: int | None
    is_internal: bool


@dataclass(frozen=True, slots=True)
class TopicList:
    """A page of topics. `troubles` are sentences about columns that could not be sampled."""

    topics: list[TopicRow]
    place: Pages
    q: str
    sort: str
    internal: bool
    troubles: list[str]


SORTS = {
    "name": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "replicas": lambda row: row.replicas,
    "records": lambda row: row.records,
    "bytes": lambda row: row.bytes,
    "rate": lambda row: row.rate,
    "under_replicated": lambda row: row.under_replicated + row.offline,
    "groups": lambda row: len(row.groups),
    "lag": lambda row: row.lag,
}


async def topics(cluster: ClusterSession, q: str = "", sort: str = "name", page: int = 1, internal: bool = False) -> TopicList:
    """Return a page of topics, filtered by a part of their names and sorted by a column."""
    found = await cluster.topics()
    samples = await cluster.read_samples()
    shown = [topic for topic in found.values() if internal or not topic.is_internal]
    matching = filter_rows(shown, q, lambda topic: topic.name)
    rows = topic_rows(matching, samples)
    on_page, place = cut(sorted_by(rows, sort, SORTS), page, len(shown))
    return TopicList(on_page, place, q, sort, internal, cluster.troubles)


def topic_rows(topics: list[TopicInfo], samples: ClusterSamples) -> list[TopicRow]:
    """Return topics with what was sampled of them."""
    groups: dict[str, list[str]] = {}
    lags: dict[str, int] = {}
    for name, offsets in samples.committed.items():
        for where, offset in offsets.items():
            if where in samples.ends:
                lags[where.topic] = lags.get(where.topic, 0) + max(samples.ends[where] - offset, 0)
                if name not in groups.setdefault(where.topic, []):
                    groups[where.topic].append(name)
    return [_row(topic, samples, sorted(groups.get(topic.name, ())), lags.get(topic.name)) for topic in topics]


def _row(topic: TopicInfo, samples: ClusterSamples, groups: list[str], lag: int | None) -> TopicRow:
    partitions = topic.partitions.values()
    points = samples.topics.get(topic.name)
    return TopicRow(
        topic.name,
        len(topic.partitions),
        max((len(each.replicas) for each in partitions), default=0),
        records_of(topic, samples.starts, samples.ends),
        samples.sizes.get(topic.name),
        rate(points) if points else None,
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        sum(each.leader < 0 for each in partitions),
        groups,
        lag,
        topic.is_internal,
    )


def records_of(topic: TopicInfo, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
    """Return the offsets between the first and the last record of a topic, or None before they were sampled."""
    places = [TopicPartition(topic.name, index) for index in topic.partitions]
    known = [ends[where] - starts[where] for where in places if where in starts and where in ends]
    return sum(known) if known else None


async def create_topic(cluster: ClusterSession, name: str, partitions: int = -1, replicas: int = -1, configs: str = "") -> Done:
    """Create a topic. Counts that are left out are the broker's defaults; `configs` has a line NAME=VALUE for each setting."""
    topic = NewTopic(name.strip(), partitions, replicas, settings_of(configs))
    made = await cluster.query(lambda admin: admin.create_topics([topic]), CHANGE_S)
    cluster.forget_topics()
    counts = made[topic.name].num_partitions
    size = f" with {counts} partition{'s' if counts != 1 else ''}" if counts > 0 else ""
    return Done(f"Topic {topic.name} was created{size}.", path_of(TOPIC, {"topic": topic.name}))


async def delete_topic(cluster: ClusterSession, topic: str, typed: str = "") -> Done:
    """Delete a topic with all its records. `typed` is its name again, as a confirmation."""
    check_typed(topic, typed)
    await cluster.query(lambda admin: admin.delete_topics(topic), CHANGE_S)
    cluster.forget_topics()
    return Done(f"Topic {topic} was deleted.", "/topics")


async def add_partitions(cluster: ClusterSession, topic: str, partitions: int) -> Done:
    """Add partitions to a topic. `partitions` is their new total number."""
    await cluster.query(lambda admin: admin.create_partitions({topic: partitions}), CHANGE_S)
    cluster.forget_topics()
    return Done(f"Topic {topic} has {partitions} partitions now.", path_of(TOPIC, {"topic": topic}))


def check_typed(name: str, typed: str) -> None:
    """Raise `PageRefused` unless a name was typed again to confirm a deletion."""
    if typed.strip() != name:
        raise PageRefused(400, f"The typed name is not {name}: type it exactly, so that nothing else is deleted.")

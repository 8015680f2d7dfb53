"""The topology in a heartbeat, and its checks before anything is stored. Each fault's error code is STREAMS_INVALID_TOPOLOGY."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from ottla.coord.streams.topology.statuses import some_of
from ottla.coord.streams.values import CopartitionGroup, DeclaredSubtopology, InternalTopic, Topology
from ottla.ports import Pauses
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest

MOST_SUBTOPOLOGIES: Final = 200
"""The most subtopologies of a topology."""

MOST_TOPICS: Final = 500
"""The most topics of a topology, counted once for each mention. Each costs microseconds whenever the topology is configured."""

MOST_COPARTITIONED: Final = 2_000
"""The most topics in all co-partition groups of a topology together."""

SHOWN_CHARACTERS: Final = 80
"""The most characters of an invalid name in a message."""


class CheckedTopology(NamedTuple):
    """The topology of a heartbeat, and what makes it invalid whatever topics exist."""

    topology: Topology
    fault: str | None


class StreamsHeartbeat(NamedTuple):
    """An input: a heartbeat, and its topology after `check`."""

    request: StreamsGroupHeartbeatRequest
    checked: CheckedTopology | None


def check(sent: StreamsGroupHeartbeatRequest.Topology) -> Pauses[CheckedTopology]:
    """Return the topology of a heartbeat, checked, with pauses. One that exceeds a limit is not parsed."""
    fault = topology_excess(sent)
    if fault is not None:
        return CheckedTopology(Topology(sent.epoch), fault)
    topology = parse(sent)
    yield None
    return CheckedTopology(topology, topology_fault(topology))


def parse(sent: StreamsGroupHeartbeatRequest.Topology) -> Topology:
    """Return the topology of a heartbeat. All lists keep their order, to which co-partition groups refer."""
    return Topology(sent.epoch, tuple(map(_subtopology, sent.subtopologies)))


def _subtopology(sent: StreamsGroupHeartbeatRequest.Subtopology) -> DeclaredSubtopology:
    return DeclaredSubtopology(
        subtopology_id=sent.subtopology_id,
        source_topics=tuple(sent.source_topics),
        source_topic_regex=tuple(sent.source_topic_regex),
        state_changelog_topics=tuple(map(_topic, sent.state_changelog_topics)),
        repartition_sink_topics=tuple(sent.repartition_sink_topics),
        repartition_source_topics=tuple(map(_topic, sent.repartition_source_topics)),
        copartition_groups=tuple(
            CopartitionGroup(tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics))
            for group in sent.copartition_groups
        ),
    )


def _topic(sent: StreamsGroupHeartbeatRequest.TopicInfo) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in sent.topic_configs)
    return InternalTopic(sent.name, sent.partitions, sent.replication_factor, configs)


def named_topics(subtopologies: Iterable[StreamsGroupHeartbeatRequest.Subtopology]) -> list[str]:
    """Return the names of all topics in the topology of a heartbeat, each once, in their order of appearance."""
    names: dict[str, None] = {}
    for each in subtopologies:
        names |= dict.fromkeys(each.source_topics)
        names |= dict.fromkeys(each.repartition_sink_topics)
        names |= dict.fromkeys([topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)])
    return list(names)


def _internal_topics(subtopology: DeclaredSubtopology) -> Iterable[InternalTopic]:
    return chain(subtopology.repartition_source_topics, subtopology.state_changelog_topics)


def name_fault(names: Iterable[str], internal: Container[str], name_error: Callable[[str], str | None]) -> str | None:
    """Return a sentence that says which topic names a topology may not have; None if all are permitted.

    `internal` contains the topics of the brokers, and `name_error` returns a message for a name that no topic can have.
    """
    names = list(names)
    prohibited = [name for name in names if name in internal]
    if prohibited:
        return f"A topology cannot use the brokers' internal topics: {some_of(prohibited)}."
    invalid = [name for name in names if name_error(name) is not None]
    if invalid:
        return f"A topology cannot use invalid topic names: {some_of(map(_shorten, invalid))}."
    return None


def _shorten(name: str) -> str:
    return name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}..."


def has_patterns(topology: Topology) -> bool:
    """Return whether source topics are given as regular expressions."""
    return any(subtopology.source_topic_regex for subtopology in topology.subtopologies)


def topology_fault(topology: Topology) -> str | None:
    """Return a sentence that says why a topology is invalid whatever topics exist; None if it may be valid."""
    if topology.epoch < 0:
        return f"The topology's epoch is {topology.epoch}: it must not be negative."
    twice = _twice([subtopology.subtopology_id for subtopology in topology.subtopologies])
    if twice:
        return f"Subtopology {some_of(map(_shorten, twice))} appears more than once."
    return next((fault for subtopology in topology.subtopologies if (fault := _fault(subtopology)) is not None), None)


def topology_excess(topology: StreamsGroupHeartbeatRequest.Topology) -> str | None:
    """Return a sentence that says which limit a topology exceeds; None if it exceeds no limit."""
    if len(topology.subtopologies) > MOST_SUBTOPOLOGIES:
        return f"The topology has {len(topology.subtopologies)} subtopologies, more than the {MOST_SUBTOPOLOGIES} allowed."
    topics = sum(map(_topic_count, topology.subtopologies))
    if topics > MOST_TOPICS:
        return f"The topology has {topics} topics, more than the {MOST_TOPICS} allowed."
    groups = chain.from_iterable(subtopology.copartition_groups for subtopology in topology.subtopologies)
    copartitioned = sum(1 + len(group.source_topics) + len(group.repartition_source_topics) for group in groups)
    if copartitioned > MOST_COPARTITIONED:
        return f"The topology's co-partition groups have {copartitioned} topics, more than the {MOST_COPARTITIONED} allowed."
    return None


def _topic_count(subtopology: StreamsGroupHeartbeatRequest.Subtopology) -> int:
    internal = len(subtopology.repartition_source_topics) + len(subtopology.state_changelog_topics)
    return internal + len(subtopology.source_topics) + len(subtopology.repartition_sink_topics)


def _fault(subtopology: DeclaredSubtopology) -> str | None:
    name = _shorten(subtopology.subtopology_id)
    for topic in subtopology.state_changelog_topics:
        if topic.partitions:
            return f"Changelog topic {topic.name} has {topic.partitions} partitions: the count must be 0, for it is derived."
    for topic in _internal_topics(subtopology):
        if topic.partitions < 0 or topic.replication_factor < -1:
            return f"Topic {topic.name} of subtopology {name} has a negative partition count or replication factor."
        twice = _twice([key for key, _ in topic.configs])
        if twice:
            return f"Topic {topic.name} of subtopology {name} has the config {some_of(map(_shorten, twice))} more than once."
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        twice = _twice([topic.name for topic in topics])
        if twice:
            return f"Subtopology {name} has topic {some_of(twice)} more than once."
    if any(_is_outside(group, subtopology) for group in subtopology.copartition_groups):
        return f"A co-partition group of subtopology {name} refers to a topic that the subtopology does not have."
    return None


def _is_outside(group: CopartitionGroup, subtopology: DeclaredSubtopology) -> bool:
    """Return whether a co-partition group has an index beyond the list to which it refers."""
    return _exceeds(group.source_topics, len(subtopology.source_topics)) or _exceeds(
        group.repartition_source_topics, len(subtopology.repartition_source_topics)
    )


def _exceeds(indexes: Sequence[int], size: int) -> bool:
    return bool(indexes) and not 0 <= min(indexes) <= max(indexes) < size


def _twice(values: Sequence[str]) -> list[str]:
    """Return the values that appear more than once."""
    if len(values) == len(set(values)):
        return []
    return [value for value, times in Counter(values).items() if times > 1]

"""The configuration of a topology: partition counts of its internal topics, numbers of tasks, and the topics that are missing.

The order of the rules is Kafka's, because it decides which status members see and which partition counts internal topics get:

1. All source topics must exist.
2. A repartition topic without a count of its own gets the largest known count of the topics that its writer reads.
3. The topics of a co-partition group get equal counts, or have them already.
4. Changelog topics get as many partitions as their subtopology has tasks.
5. Internal topics that exist must have these counts. The others are to be created.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.streams.topology.dependencies import required_topics
from ottla.coord.streams.topology.statuses import incorrectly_partitioned, missing_internals, missing_sources
from ottla.coord.streams.values import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    DeclaredSubtopology,
    GroupStatus,
    InternalTopic,
    Topology,
)

FIRST_TABLE: Final = 16
"""The initial number of buckets of Java's hash tables."""


class InvalidTopology(NamedTuple):
    """The refusal of a topology that no topics could make valid. The error code is STREAMS_INVALID_TOPOLOGY."""

    message: str


class _Rejected(Exception):
    """The configuration ended early with a result."""

    def __init__(self, result: GroupStatus | InvalidTopology) -> None:
        self.result = result


def configure(topology: Topology, topics: KnownTopics) -> ConfiguredTopology | InvalidTopology:
    """Return a topology with the tasks that follow from the known topics, or the problem with these topics.

    A topology with circles among its repartition topics is refused, as is one with repartition topics that nothing writes.
    """
    try:
        return _Configuration(topology, topics).result()
    except _Rejected as rejected:
        result = rejected.result
        return ConfiguredTopology(topology.epoch, {}, problem=result) if isinstance(result, GroupStatus) else result


class _Configuration:
    """One configuration in progress. `_counts` are the partition counts decided so far, by topic name."""

    def __init__(self, topology: Topology, topics: KnownTopics) -> None:
        self._epoch = topology.epoch
        self._subtopologies = _in_java_order(topology.subtopologies)
        found = ((name, topics.topic(name)) for name in required_topics(topology))
        self._existing = {name: topic.shape.partitions for name, topic in found if topic is not None}
        self._counts: dict[str, int] = {}
        self._task_counts: dict[str, int] = {}

    def result(self) -> ConfiguredTopology:
        self._check_sources()
        self._decide_repartition_counts()
        self._enforce_copartitioning()
        self._decide_changelog_counts()
        ordered = sorted(self._subtopologies, key=lambda each: each.subtopology_id)
        configured = {each.subtopology_id: self._configure(each) for each in ordered}
        missing = self._missing(configured)
        problem = missing_internals(topic.name for topic in missing) if missing else None
        return ConfiguredTopology(self._epoch, configured, missing, problem)

    def _count(self, name: str) -> int:
        """Return the partition count of a topic that exists, else the count decided for it; 0 if there is neither."""
        return self._existing.get(name) or self._counts.get(name, 0)

    def _check_sources(self) -> None:
        missing = {name for each in self._subtopologies for name in each.source_topics if name not in self._existing}
        if missing:
            raise _Rejected(missing_sources(missing))

    def _decide_repartition_counts(self) -> None:
        """Decide the count of every repartition topic that a subtopology writes.

        Kafka makes rounds over the subtopologies until all counts are known. A heap of (round, position) visits only those that
        became ready, at the times at which Kafka visits them.
        """
        sources = [topic for each in self._subtopologies for topic in each.repartition_source_topics]
        self._counts.update((topic.name, topic.partitions) for topic in sources if topic.partitions)
        readers: dict[str, list[int]] = {}
        for position, each in enumerate(self._subtopologies):
            for topic in each.repartition_source_topics:
                readers.setdefault(topic.name, []).append(position)
        visits = [(0, position) for position, each in enumerate(self._subtopologies) if self._largest_source(each)]
        done: set[int] = set()
        while visits:
            turn, position = heappop(visits)
            if position in done:
                continue
            done.add(position)
            for name in self._decide_sinks(self._subtopologies[position]):
                for reader in readers.get(name, ()):
                    heappush(visits, (turn + (reader <= position), reader))
        self._check_repartition_topics(sources)

    def _decide_sinks(self, subtopology: DeclaredSubtopology) -> list[str]:
        """Decide the counts of the repartition topics that a subtopology writes, and return their names."""
        count = self._largest_source(subtopology)
        news = [name for name in dict.fromkeys(subtopology.repartition_sink_topics) if name not in self._counts]
        self._counts.update(dict.fromkeys(news, count))
        return news

    def _largest_source(self, subtopology: DeclaredSubtopology) -> int:
        """Return the largest known partition count of the topics that a subtopology reads; 0 if none is known."""
        known = [self._existing.get(name, 0) for name in subtopology.source_topics]
        known += [self._counts.get(topic.name, 0) for topic in subtopology.repartition_source_topics]
        return max(known, default=0)

    def _check_repartition_topics(self, sources: list[InternalTopic]) -> None:
        for each in self._subtopologies:
            if any(name not in self._counts for name in each.repartition_sink_topics):
                message = "The partition counts of repartition topics cannot be derived: subtopologies read each other in a circle."
                raise _Rejected(InvalidTopology(message))
        unwritten = next((topic.name for topic in sources if topic.name not in self._counts), None)
        if unwritten is not None:
            message = f"The partition count of repartition topic {unwritten} cannot be derived: no subtopology writes it."
            raise _Rejected(InvalidTopology(message))

    def _enforce_copartitioning(self) -> None:
        fixed = {topic.name: bool(topic.partitions) for each in self._subtopologies for topic in each.repartition_source_topics}
        for each in self._subtopologies:
            for group in each.copartition_groups:
                names = {each.source_topics[index] for index in group.source_topics}
                names |= {each.repartition_source_topics[index].name for index in group.repartition_source_topics}
                self._enforce({name: self._count(name) for name in names}, fixed)

    def _enforce(self, counts: Mapping[str, int], fixed: Mapping[str, bool]) -> None:
        """Give the topics of one co-partition group the same partition count.

        The count is that of the source topics; else that of repartition topics with a fixed count; else the largest.
        """
        others = {name: count for name, count in counts.items() if name not in fixed}
        binding = others or {name: count for name, count in counts.items() if fixed.get(name)}
        if len(set(binding.values())) > 1:
            listed = ", ".join(f"{name} has {binding[name]}" for name in sorted(binding))
            raise _Rejected(incorrectly_partitioned(f"These topics must have equal partition counts: {listed}."))
        wanted = max((binding or counts).values(), default=0)
        for name in sorted(counts.keys() - others.keys()):
            if fixed[name] and counts[name] != wanted:
                detail = f"Repartition topic {name} has {counts[name]} partitions, and the topics joined with it have {wanted}."
                raise _Rejected(incorrectly_partitioned(detail))
            self._counts[name] = wanted

    def _decide_changelog_counts(self) -> None:
        for each in self._subtopologies:
            count = self._task_count(each)
            if not count:
                raise _Rejected(InvalidTopology(f"Subtopology {each.subtopology_id} has no source topics."))
            self._task_counts[each.subtopology_id] = count
            self._counts.update((topic.name, count) for topic in each.state_changelog_topics)

    def _task_count(self, subtopology: DeclaredSubtopology) -> int:
        """Return the number of a subtopology's tasks: the largest partition count of the topics that it reads."""
        names = (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))
        return max(map(self._count, names), default=0)

    def _configure(self, subtopology: DeclaredSubtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            self._task_counts[subtopology.subtopology_id],
            tuple(sorted(set(subtopology.source_topics))),
            tuple(sorted(set(subtopology.repartition_sink_topics))),
            self._with_counts(subtopology.repartition_source_topics),
            self._with_counts(subtopology.state_changelog_topics),
        )

    def _with_counts(self, topics: tuple[InternalTopic, ...]) -> tuple[InternalTopic, ...]:
        """Return internal topics in order, with the partition counts that the topology requires."""
        counts = self._counts
        return tuple(
            [InternalTopic(name, known or counts[name], replicas, configs) for name, known, replicas, configs in sorted(topics)]
        )

    def _missing(self, configured: Mapping[str, ConfiguredSubtopology]) -> tuple[InternalTopic, ...]:
        """Return the internal topics that do not exist. All others must have the required partition counts."""
        wanted = {topic.name: topic for each in configured.values() for topic in each.repartition_source_topics}
        # Repartition topics come first, because the counts of changelog topics follow from theirs.
        wanted |= {topic.name: topic for each in configured.values() for topic in each.state_changelog_topics}
        for name, topic in wanted.items():
            existing = self._existing.get(name, topic.partitions)
            if existing != topic.partitions:
                detail = f"Internal topic {name} has {existing} partitions, but the topology requires {topic.partitions}."
                raise _Rejected(incorrectly_partitioned(f"{detail} Reset the application, or restore the former topology."))
        return tuple(wanted[name] for name in sorted(wanted.keys() - self._existing.keys()))


def _in_java_order(subtopologies: tuple[DeclaredSubtopology, ...]) -> list[DeclaredSubtopology]:
    """Return subtopologies in the order of Java's hash tables, in which Kafka decides partition counts.

    The order matters only if a repartition topic is written by several subtopologies, or read beside other topics.
    """
    buckets = FIRST_TABLE
    while len(subtopologies) > buckets * 3 // 4:
        buckets *= 2
    return sorted(subtopologies, key=lambda each: _java_hash(each.subtopology_id) & (buckets - 1))


def _java_hash(text: str) -> int:
    hashed = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return hashed ^ hashed >> 16

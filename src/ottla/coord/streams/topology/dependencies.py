"""The topics on which a topology depends, and the equality of topologies."""

from __future__ import annotations

from ottla.coord.streams.values import Topology


def required_topics(topology: Topology) -> frozenset[str]:
    """Return the names of the topics on whose existence and partition counts the tasks of a topology depend."""
    names: list[str] = []
    for each in topology.subtopologies:
        names += each.source_topics
        names += [topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics)]
    return frozenset(names)


def is_same(one: Topology, other: Topology) -> bool:
    """Return whether two topologies are equal, as Kafka compares them: only the order of subtopologies is free."""
    if one.epoch != other.epoch or len(one.subtopologies) != len(other.subtopologies):
        return False
    others = {subtopology.subtopology_id: subtopology for subtopology in other.subtopologies}
    return all(others.get(subtopology.subtopology_id) == subtopology for subtopology in one.subtopologies)

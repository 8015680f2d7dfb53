"""The partitions behind tasks: clients of interactive queries need them, and checks of the tasks that a member reports."""

from __future__ import annotations

from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.streams.values import ConfiguredTopology, TaskIds
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse

TopicPartition = StreamsGroupHeartbeatResponse.TopicPartition


def partitions_of(tasks: TaskIds, configured: ConfiguredTopology, topics: KnownTopics) -> list[TopicPartition]:
    """Return the partitions that `tasks` read, in order. A topic with fewer partitions than there are tasks has only its own."""
    found = []
    for subtopology_id in sorted(tasks):
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        names = {*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)}
        numbers = sorted(tasks[subtopology_id])
        for name in sorted(names):
            topic = topics.topic(name)
            read = [number for number in numbers if topic is not None and number < topic.shape.partitions]
            if read:
                found.append(TopicPartition(topic=name, partitions=read))
    return found


def task_fault(tasks: TaskIds, configured: ConfiguredTopology) -> str | None:
    """Return a sentence if `tasks` contain a task that the topology does not have; else None."""
    for subtopology_id, numbers in tasks.items():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            return f"Subtopology {subtopology_id} does not exist in the topology."
        outside = [number for number in numbers if not 0 <= number < subtopology.task_count]
        if outside:
            return f"Task {min(outside)} of subtopology {subtopology_id} does not exist: it has {subtopology.task_count} tasks."
    return None

"""DescribeTopicPartitions: partitions of topics in the order of their names, a page at a time (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import OPERATIONS, Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import name_error
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from ottla.wire.errors import INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION

MOST_PARTITIONS: Final = 2000
"""In one response, however many are asked for (Kafka's max.request.partition.size.limit)."""

AT_ONCE: Final = 50
PARTITIONS_AT_ONCE: Final = 200
"""Topics and partitions described between two pauses."""

TopicResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Cursor = DescribeTopicPartitionsResponse.Cursor


@serves(DescribeTopicPartitionsRequest, Need(Operation.DESCRIBE, Resource.TOPIC, "topics.name"))
def describe_topic_partitions(
    request: Request[DescribeTopicPartitionsRequest], cluster: ClusterImage, describer: PartitionDescriber, later: LaterReplies
) -> Reply:
    """Describe the topics asked for, or all of them if none is, from the cursor on; `next_cursor` says where to go on.

    A cursor that is at none of the topics asked for, or at a negative partition, is refused with INVALID_REQUEST.
    """
    return later.computed(_described_slowly(request.body, cluster, describer))


def _described_slowly(body: DescribeTopicPartitionsRequest, cluster: ClusterImage, describer: PartitionDescriber) -> Steps[Reply]:
    wanted = sorted({topic.name for topic in body.topics})
    names = _from_cursor(body, wanted or sorted(cluster.topics))
    yield None
    if names is None:
        return DescribeTopicPartitionsResponse(topics=[TopicResponse(error_code=INVALID_REQUEST, name=name) for name in wanted])
    room = max(1, min(body.response_partition_limit, MOST_PARTITIONS))
    response = DescribeTopicPartitionsResponse()
    for number, name in enumerate(names, 1):
        if not number % AT_ONCE:
            yield None
        if not room:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = body.cursor.partition_index if body.cursor is not None and body.cursor.topic_name == name else 0
        topic = cluster.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        end = min(first + room, len(topic.partitions))
        described = _described(topic)
        for start in range(first, end, PARTITIONS_AT_ONCE):
            described.partitions += _partitions(describer, topic, start, min(end, start + PARTITIONS_AT_ONCE))
            yield None
        response.topics.append(described)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        room -= max(0, end - first)
    return response


def _from_cursor(body: DescribeTopicPartitionsRequest, names: Sequence[str]) -> Sequence[str] | None:
    """The names from the cursor on; None where it cannot be one of theirs."""
    if body.cursor is None:
        return names
    at = body.cursor.topic_name
    if body.cursor.partition_index < 0 or (body.topics and at not in names):
        return None
    return [name for name in names if name >= at]


def _unknown(name: str) -> TopicResponse:
    error_code = UNKNOWN_TOPIC_OR_PARTITION if name_error(name) is None else INVALID_TOPIC_EXCEPTION
    return TopicResponse(error_code=error_code, name=name, topic_authorized_operations=OPERATIONS[Resource.TOPIC])


def _described(topic: TopicImage) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[],
        topic_authorized_operations=OPERATIONS[Resource.TOPIC],
    )


def _partitions(describer: PartitionDescriber, topic: TopicImage, first: int, end: int) -> list[PartitionResponse]:
    make = partial(PartitionResponse, eligible_leader_replicas=[], last_known_elr=[])
    return [describer.describe(topic.name, partition, make) for partition in topic.partitions[first:end]]

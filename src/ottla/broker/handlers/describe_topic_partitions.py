"""DescribeTopicPartitions: partitions of topics sorted by name, a page at a time (KIP-966).

A page has at most 2000 partitions, even if the request permits more. Eligible leader replicas are always empty. Version 0 is the
only version.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final

from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.parts import Parts, ResponseWriter, by_weight, sorted_slowly
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import name_error
from ottla.ports import Steps
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from ottla.wire.errors import INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION

MOST_PARTITIONS: Final = 2000
"""Upper limit of partitions per response, regardless of the request (Kafka's max.request.partition.size.limit)."""

AT_ONCE: Final = 200
"""Topics and partitions described between two pauses."""

TOPICS: Final = ("topics", "partitions")

TopicResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PartitionResponse = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
Cursor = DescribeTopicPartitionsRequest.Cursor


@serves(
    DescribeTopicPartitionsRequest,
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics.name"),
    parts=Parts(((TOPICS[:1], TOPICS),), together=True, at_once=AT_ONCE),
)
def describe_topic_partitions(
    request: Request[DescribeTopicPartitionsRequest],
    cluster: ClusterImage,
    describer: PartitionDescriber,
    rights: Rights,
    metadata_waits: MetadataWaits,
) -> Reply:
    """Describe the requested topics, or all topics if none is requested, from the cursor on; `next_cursor` is the next position.

    A cursor at a topic that is not requested, or at a negative partition, is refused with INVALID_REQUEST.
    """
    return metadata_waits.delay(request.now, partial(_described_slowly, request, cluster, describer, rights))


def _described_slowly(
    request: Request[DescribeTopicPartitionsRequest], cluster: ClusterImage, describer: PartitionDescriber, rights: Rights
) -> Steps[Reply]:
    asked: list[list[str]] = []
    refused: list[DescribeTopicPartitionsResponse] = []
    for part in request.parts():
        said = part.denied if part.refused is None else part.refused
        if isinstance(said, DescribeTopicPartitionsResponse):
            refused.append(said)
        elif said is not None:
            return said
        if part.refused is None:
            asked.append([topic.name for topic in part.body.topics])
        yield None
    are_all = not any(asked) and not refused
    names = yield from sorted_slowly([_visible(request, cluster, rights)] if are_all else asked)
    response = DescribeTopicPartitionsResponse()
    operations = partial(rights.operations, request.peer, Resource.TOPIC)
    page = _Page(request.body, response, cluster, describer, operations, are_all=are_all)
    writer = ResponseWriter(request, TOPICS, response)
    for topics in chain(page.blocks(names), (said.topics for said in refused)):
        writer.add(DescribeTopicPartitionsResponse(topics=topics))
        if writer.is_too_large:
            break
        yield None
    return writer.reply()


def _visible(request: Request[DescribeTopicPartitionsRequest], cluster: ClusterImage, rights: Rights) -> list[str]:
    """Return the names of the topics that the client may describe."""
    if rights.is_unlimited(request.peer):
        return list(cluster.topics)
    seen = rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
    return [name for name in cluster.topics if seen[name]]


class _Page:
    """The content of one response, in blocks; `response` gets the cursor of the next page."""

    def __init__(
        self,
        body: DescribeTopicPartitionsRequest,
        response: DescribeTopicPartitionsResponse,
        cluster: ClusterImage,
        describer: PartitionDescriber,
        operations: Callable[[str], int],
        *,
        are_all: bool,
    ) -> None:
        self._room = max(1, min(body.response_partition_limit, MOST_PARTITIONS))
        self._cursor = body.cursor
        self._response = response
        self._cluster = cluster
        self._describer = describer
        self._operations = operations
        self._are_all = are_all

    def blocks(self, names: Sequence[str]) -> Iterator[list[TopicResponse]]:
        """Return the described topics in blocks, from the cursor on."""
        return by_weight(self._from_cursor(names), lambda topic: 1 + len(topic.partitions), AT_ONCE)

    def _from_cursor(self, names: Sequence[str]) -> Iterator[TopicResponse]:
        cursor = self._cursor
        if cursor is None:
            return self._describe_from(names, 0)
        at = bisect_left(names, cursor.topic_name)
        is_there = names[at : at + 1] == [cursor.topic_name]
        if cursor.partition_index < 0 or not (self._are_all or is_there):
            return (TopicResponse(error_code=INVALID_REQUEST, name=name) for name in ([] if self._are_all else names))
        return self._describe_from(islice(names, at, None), cursor.partition_index if is_there else 0)

    def _describe_from(self, names: Iterable[str], first: int) -> Iterator[TopicResponse]:
        """Yield the topics, each large topic in pieces. `first` is the first partition of the first topic."""
        for name in names:
            if not self._room:
                self._response.next_cursor = Cursor(topic_name=name, partition_index=0)
                return
            topic = self._cluster.topics.get(name)
            if topic is not None:
                yield from self._pieces(topic, first)
            elif not self._are_all:
                yield _unknown(name, self._operations(name))
            if self._response.next_cursor is not None:
                return
            first = 0

    def _pieces(self, topic: TopicImage, first: int) -> Iterator[TopicResponse]:
        end = min(first + self._room, len(topic.partitions))
        for start in range(first, max(end, first + 1), AT_ONCE):
            described = _describe(topic, self._operations(topic.name))
            described.partitions = _partitions(self._describer, topic, start, min(end, start + AT_ONCE))
            yield described
        self._room -= max(0, end - first)
        if end < len(topic.partitions):
            self._response.next_cursor = Cursor(topic_name=topic.name, partition_index=end)


def _unknown(name: str, operations: int) -> TopicResponse:
    error_code = UNKNOWN_TOPIC_OR_PARTITION if name_error(name) is None else INVALID_TOPIC_EXCEPTION
    return TopicResponse(error_code=error_code, name=name, topic_authorized_operations=operations)


def _describe(topic: TopicImage, operations: int) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _partitions(describer: PartitionDescriber, topic: TopicImage, first: int, end: int) -> list[PartitionResponse]:
    make = partial(PartitionResponse, eligible_leader_replicas=[], last_known_elr=[])
    return [describer.describe(topic.name, partition, make) for partition in topic.partitions[first:end]]

"""ElectLeaders and ListPartitionReassignments: every partition has one replica, which leads it already, and nothing moves."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Steps
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.image import ClusterImage
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    ERRORS,
    INVALID_REQUEST,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

PREFERRED, UNCLEAN = 0, 1
TOP_LEVEL_ERROR_FROM = 1
NOT_NEEDED = "Leader election not needed for topic partition."

Elected = ElectLeadersRequest.TopicPartitions
TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


@serves(
    ElectLeadersRequest,
    controller_only=True,
    slices=Slices(((("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),)),
)
def elect_leaders(
    request: Request[ElectLeadersRequest], cluster: ClusterImage, partitions: Partitions, later: LaterReplies, rights: Rights
) -> Reply:
    """Say of each partition why nobody was elected. Of all partitions, those are left out that need no election."""
    if not rights.asked(request.peer, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, request.api.name, request.now):
        return _denied(request.body, request.version)
    return later.computed(_elected(request.body, cluster, partitions))


def _denied(body: ElectLeadersRequest, version: int) -> ElectLeadersResponse:
    """As Kafka says it: of each partition, and of the whole where there is a place for it."""
    code, sentence = CLUSTER_AUTHORIZATION_FAILED, ERRORS[CLUSTER_AUTHORIZATION_FAILED].sentence
    results = [
        TopicResult(
            topic=each.topic,
            partition_result=[
                PartitionResult(partition_id=one, error_code=code, error_message=sentence) for one in each.partitions
            ],
        )
        for each in body.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code if version >= TOP_LEVEL_ERROR_FROM else NONE, replica_election_results=results)


def _elected(body: ElectLeadersRequest, cluster: ClusterImage, partitions: Partitions) -> Steps[Reply]:
    error_code = NONE if body.election_type in (PREFERRED, UNCLEAN) else INVALID_REQUEST
    if body.topic_partitions is None:
        there = list(cluster.topics.values())
        asked = [Elected(topic=topic.name, partitions=list(range(len(topic.partitions)))) for topic in there]
    else:
        asked = body.topic_partitions
    refusal = f"Unknown election type {body.election_type}: use {PREFERRED} or {UNCLEAN}." if error_code else None
    results = []
    for each in asked:
        found = list(_results(cluster, partitions, each, refusal))
        if body.topic_partitions is None:
            found = [part for part in found if part.error_code != ELECTION_NOT_NEEDED]
        results.append(TopicResult(topic=each.topic, partition_result=found))
        yield None
    return ElectLeadersResponse(error_code=error_code, replica_election_results=results)


def _results(cluster: ClusterImage, partitions: Partitions, asked: Elected, refusal: str | None) -> Iterator[PartitionResult]:
    for index in asked.partitions:
        error_code, sentence = (INVALID_REQUEST, refusal) if refusal else _outcome(cluster, partitions, asked.topic, index)
        yield PartitionResult(partition_id=index, error_code=error_code, error_message=sentence)


def _outcome(cluster: ClusterImage, partitions: Partitions, name: str, index: int) -> tuple[int, str]:
    topic = cluster.topics.get(name)
    if topic is None:
        return UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    if not 0 <= index < len(topic.partitions):
        return UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    held = partitions.get(name, index)
    if held is not None and held.offline is not None:
        return PREFERRED_LEADER_NOT_AVAILABLE, ERRORS[PREFERRED_LEADER_NOT_AVAILABLE].sentence
    return ELECTION_NOT_NEEDED, NOT_NEEDED


@serves(ListPartitionReassignmentsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER), controller_only=True)
def list_partition_reassignments(request: Request[ListPartitionReassignmentsRequest]) -> Reply:
    """None is ever under way."""
    return ListPartitionReassignmentsResponse(error_message=None)

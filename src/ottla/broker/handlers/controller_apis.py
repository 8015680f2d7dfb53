"""Requests of brokers to the controller: AlterPartition, AllocateProducerIds and ControlledShutdown.

AlterPartition has the in-sync replicas that a leader asks for (KIP-497). Version 1 added the recovery state (KIP-704), 2 topic
ids, 3 the broker epochs of the replicas (KIP-903).

AllocateProducerIds returns a block of producer ids (KIP-730), in version 0. A broker epoch other than the broker's current
epoch is refused.

ControlledShutdown returns the partitions that a stopping broker still leads although another replica could lead them. Version 2
added the broker epoch (KIP-380).

ElectLeaders has leader elections that an operator asks for (KIP-183, KIP-460). A request without partitions is for all
partitions; partitions that need no election are then left out of the response. Version 1 added the unclean election type and a
top-level error code.

AlterPartitionReassignments and ListPartitionReassignments give partitions other replicas (KIP-455). A null list of replicas
cancels a reassignment; the reply is sent when the targets are stored. Version 1 of AlterPartitionReassignments added
`allow_replication_factor_change`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.controller.controller import Controller
from ottla.broker.controller.reassignments import Faults, Targets
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION, Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIdBlocks
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.controller_rules.context import ReplicaAssignment
from ottla.ports import Steps
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    ERRORS,
    INVALID_REQUEST,
    NONE,
    NOT_CONTROLLER,
)

Remaining = ControlledShutdownResponse.RemainingPartition

PREFERRED, UNCLEAN = 0, 1
TOP_LEVEL_ERROR_FROM = 1
UNKNOWN_TYPE = "Unknown election type {}: use 0 (preferred) or 1 (unclean)."

TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult

MOST_MOVES = 100_000

Altered = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
AlteredPartition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
Listed = ListPartitionReassignmentsResponse.OngoingTopicReassignment
ListedPartition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


@serves(
    AlterPartitionReassignmentsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    controller_only=True,
    most=MOST_MOVES,
    to_the_end=True,
)
def alter_partition_reassignments(
    request: Request[AlterPartitionReassignmentsRequest],
    controller: Controller,
) -> Reply:
    """Respond once the targets are written to the registry; ListPartitionReassignments returns the progress."""
    return _alter_reassignments(request.body, controller)


def _alter_reassignments(body: AlterPartitionReassignmentsRequest, controller: Controller) -> Steps[Reply]:
    targets: Targets = {(topic.name, one.partition_index): one.replicas for topic in body.topics for one in topic.partitions}
    if len(targets) < sum(len(topic.partitions) for topic in body.topics):
        return _refuse(INVALID_REQUEST, "A partition is named twice: name each once.")
    found = yield from controller.alter_reassignments(targets, may_resize=body.allow_replication_factor_change)
    if found is None:
        return _refuse(NOT_CONTROLLER)
    responses = [Altered(name=topic.name, partitions=list(_results(topic, found))) for topic in body.topics]
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


def _results(topic: AlterPartitionReassignmentsRequest.ReassignableTopic, found: Faults) -> Iterator[AlteredPartition]:
    for one in topic.partitions:
        code, sentence = found[topic.name, one.partition_index]
        yield AlteredPartition(partition_index=one.partition_index, error_code=code, error_message=sentence or None)


def _refuse(code: int, sentence: str = "") -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=sentence or ERRORS[code].sentence)


@serves(ListPartitionReassignmentsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER), controller_only=True, most=MOST_MOVES)
def list_partition_reassignments(request: Request[ListPartitionReassignmentsRequest], controller: Controller) -> Steps[Reply]:
    """Return the ongoing reassignments."""
    topics_asked = request.body.topics
    asked = None if topics_asked is None else [(topic.name, index) for topic in topics_asked for index in topic.partition_indexes]
    found = yield from controller.reassignments(asked)
    if found is None:
        return ListPartitionReassignmentsResponse(error_code=NOT_CONTROLLER, error_message=ERRORS[NOT_CONTROLLER].sentence)
    topics: dict[str, Listed] = {}
    for (name, index), assignment in found.items():
        topics.setdefault(name, Listed(name=name)).partitions.append(_describe_ongoing(index, assignment))
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _describe_ongoing(index: int, assignment: ReplicaAssignment) -> ListedPartition:
    return ListedPartition(
        partition_index=index,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
    )


@serves(
    ElectLeadersRequest,
    controller_only=True,
    to_the_end=True,
    parts=Parts(((("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),)),
)
def elect_leaders(request: Request[ElectLeadersRequest], controller: Controller, rights: Rights) -> Steps[Reply]:
    """Return a result per partition. A request for all partitions gets no result for partitions that need no election."""
    body, version = request.body, request.version
    if not rights.check(request.peer, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, request.api.name, request.now):
        sentence = ERRORS[CLUSTER_AUTHORIZATION_FAILED].sentence
        return _all_refused(body, version, CLUSTER_AUTHORIZATION_FAILED, sentence)
    if body.election_type not in (PREFERRED, UNCLEAN):
        sentence = UNKNOWN_TYPE.format(body.election_type)
        return _all_refused(body, version, INVALID_REQUEST, sentence)
    asked = None
    if body.topic_partitions is not None:
        asked = [(each.topic, index) for each in body.topic_partitions for index in each.partitions]
    found = yield from controller.elect(asked, is_unclean=body.election_type == UNCLEAN)
    if found is None:
        return _all_refused(body, version, NOT_CONTROLLER, ERRORS[NOT_CONTROLLER].sentence)
    topics: dict[str, TopicResult] = {}
    for (name, index), (code, sentence) in found.items():
        if asked is not None or code != ELECTION_NOT_NEEDED:
            result = PartitionResult(partition_id=index, error_code=code, error_message=sentence or None)
            topics.setdefault(name, TopicResult(topic=name)).partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _all_refused(body: ElectLeadersRequest, version: int, code: int, sentence: str) -> ElectLeadersResponse:
    """Return the response to a refused request: an error per partition, and a top-level error if the version has the field."""
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


@serves(ControlledShutdownRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), controller_only=True, to_the_end=True)
def controlled_shutdown(request: Request[ControlledShutdownRequest], controller: Controller) -> Steps[Reply]:
    """Move leadership away from the broker, and return the partitions that it still leads although another replica could lead."""
    error_code, left = yield from controller.stop(request.body)
    remaining = [Remaining(topic_name=name, partition_index=index) for name, index in left]
    return ControlledShutdownResponse(error_code=error_code, remaining_partitions=remaining)


@serves(
    AllocateProducerIdsRequest,
    Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    controller_only=True,
    to_the_end=True,
)
def allocate_producer_ids(request: Request[AllocateProducerIdsRequest], blocks: ProducerIdBlocks) -> Steps[Reply]:
    """Allocate the next block for a broker, unless its broker epoch is stale."""
    block = yield from blocks.allocate_for(request.body.broker_id, request.body.broker_epoch)
    if isinstance(block, int):
        return AllocateProducerIdsResponse(error_code=block)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


@serves(AlterPartitionRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), parts=BY_PARTITION, to_the_end=True)
def alter_partition(request: Request[AlterPartitionRequest], controller: Controller) -> Steps[Reply]:
    """Commit the permitted changes to the registry, and return the resulting state of each partition."""
    if not controller.is_active:
        return AlterPartitionResponse(error_code=NOT_CONTROLLER)
    return (yield from controller.alter_partition(request.body, request.version))

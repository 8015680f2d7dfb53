"""AlterPartitionReassignments and ListPartitionReassignments: other replicas for partitions (KIP-455).

Served by the controller. A null list of replicas cancels a reassignment; the reply is sent when the targets are stored. Version 1
of AlterPartitionReassignments added `allow_replication_factor_change`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.controller.controller import Controller
from ottla.broker.controller.reassignments import Faults, Targets
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.controller_rules.context import ReplicaAssignment
from ottla.ports import Steps
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import ERRORS, INVALID_REQUEST, NOT_CONTROLLER

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
    return _altered(request.body, controller)


def _altered(body: AlterPartitionReassignmentsRequest, controller: Controller) -> Steps[Reply]:
    targets: Targets = {(topic.name, one.partition_index): one.replicas for topic in body.topics for one in topic.partitions}
    if len(targets) < sum(len(topic.partitions) for topic in body.topics):
        return _refused(INVALID_REQUEST, "A partition is named twice: name each once.")
    found = yield from controller.alter_reassignments(targets, may_resize=body.allow_replication_factor_change)
    if found is None:
        return _refused(NOT_CONTROLLER)
    responses = [Altered(name=topic.name, partitions=list(_results(topic, found))) for topic in body.topics]
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


def _results(topic: AlterPartitionReassignmentsRequest.ReassignableTopic, found: Faults) -> Iterator[AlteredPartition]:
    for one in topic.partitions:
        code, sentence = found[topic.name, one.partition_index]
        yield AlteredPartition(partition_index=one.partition_index, error_code=code, error_message=sentence or None)


def _refused(code: int, sentence: str = "") -> AlterPartitionReassignmentsResponse:
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
        topics.setdefault(name, Listed(name=name)).partitions.append(_moving(index, assignment))
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _moving(index: int, assignment: ReplicaAssignment) -> ListedPartition:
    return ListedPartition(
        partition_index=index,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
    )

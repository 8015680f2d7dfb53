"""LeaderAndIsr: the controller tells this broker which partitions it leads, and which it follows."""

from __future__ import annotations

from ottla.broker.replication.controller_words import roles
from ottla.broker.replication.replica_manager import Errors, ReplicaManager
from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

BY_TOPIC_ID_FROM = 5

PartitionError = LeaderAndIsrResponse.LeaderAndIsrPartitionError
TopicError = LeaderAndIsrResponse.LeaderAndIsrTopicError


@serves(LeaderAndIsrRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True)
def leader_and_isr(request: Request[LeaderAndIsrRequest], replicas: ReplicaManager, later: LaterReplies) -> Reply:
    """Take on all roles, which opens the logs, and say which could not be taken."""
    return later.computed(_taken(request, replicas), to_the_end=True)


def _taken(request: Request[LeaderAndIsrRequest], replicas: ReplicaManager) -> Steps[Reply]:
    body, told = request.body, list(roles(request.body, request.version))
    replicas.leader_addresses.update({each.broker_id: (each.host_name, each.port) for each in body.live_leaders})
    steps = replicas.in_turn(body.controller_epoch, body.broker_epoch, lambda: replicas.take_roles(told))
    errors = yield from steps
    if isinstance(errors, int):
        return LeaderAndIsrResponse(error_code=errors)
    return _response(errors, {role.topic: role.topic_id for role in told}, request.version)


def _response(errors: Errors, topic_ids: dict[str, bytes], version: int) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[str, TopicError] = {}
    for (topic, index), error_code in errors.items():
        if version < BY_TOPIC_ID_FROM:
            response.partition_errors.append(PartitionError(topic_name=topic, partition_index=index, error_code=error_code))
            continue
        if topic not in topics:
            topics[topic] = TopicError(topic_id=topic_ids[topic])
        topics[topic].partition_errors.append(PartitionError(partition_index=index, error_code=error_code))
    response.topics = list(topics.values())
    return response

"""LeaderAndIsr: the partitions that this broker leads and follows, as the controller of a cluster assigns them.

An outdated controller epoch is refused. Version 2 groups partitions by topic, and 5 names topics by id in the response; 6 added the
leader's recovery state (KIP-704).
"""

from __future__ import annotations

from ottla.broker.replication.controller_messages import read_roles
from ottla.broker.replication.image_updates import ImageUpdates
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.metadata import Errors
from ottla.ports import Steps
from ottla.wire.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

BY_TOPIC_ID_FROM = 5

PartitionError = LeaderAndIsrResponse.LeaderAndIsrPartitionError
TopicError = LeaderAndIsrResponse.LeaderAndIsrTopicError

BY_ID, BY_NAME = ("topics", "partition_errors"), ("partition_errors",)
PARTS = Parts(
    ((("topic_states", "partition_states"), BY_NAME), (("ungrouped_partition_states",), BY_NAME)),
    whole_bytes=8192,
    together=True,
)


@serves(LeaderAndIsrRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, parts=PARTS, to_the_end=True)
def leader_and_isr(request: Request[LeaderAndIsrRequest], replicas: ReplicaManager, updates: ImageUpdates) -> Steps[Reply]:
    """Take all assigned roles, open the logs, and return an error code per partition."""
    body, version = request.body, request.version
    writer = ResponseWriter(request, BY_ID if version >= BY_TOPIC_ID_FROM else BY_NAME)

    def taken() -> Steps[None]:
        replicas.leader_addresses.update({each.broker_id: (each.host_name, each.port) for each in body.live_leaders})
        for part in request.parts():
            told = list(read_roles(part.body, version))
            errors = yield from updates.take_roles(told)
            writer.add(_response(errors, {role.topic: role.topic_id for role in told}, version))
            yield None

    error_code = yield from replicas.run_in_order(body.controller_epoch, body.broker_epoch, taken)
    return LeaderAndIsrResponse(error_code=error_code) if error_code else writer.reply()


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

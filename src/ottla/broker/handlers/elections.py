"""ElectLeaders: leader elections that an operator asks for (KIP-183, KIP-460).

Served by the controller. A request without partitions is for all partitions; partitions that need no election are then left out of
the response. Version 1 added the unclean election type and a top-level error code.
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.acls import CLUSTER_NAME
from ottla.ports import Steps
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ELECTION_NOT_NEEDED,
    ERRORS,
    INVALID_REQUEST,
    NONE,
    NOT_CONTROLLER,
)

PREFERRED, UNCLEAN = 0, 1
TOP_LEVEL_ERROR_FROM = 1
UNKNOWN_TYPE = "Unknown election type {}: use 0 (preferred) or 1 (unclean)."

TopicResult = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


@serves(
    ElectLeadersRequest,
    controller_only=True,
    to_the_end=True,
    parts=Parts(((("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),)),
)
def elect_leaders(request: Request[ElectLeadersRequest], controller: Controller, rights: Rights) -> Steps[Reply]:
    """Return a result per partition. A request for all partitions gets no result for partitions that need no election."""
    body, version = request.body, request.version
    if not rights.asked(request.peer, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, request.api.name, request.now):
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

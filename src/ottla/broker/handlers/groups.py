"""Groups: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups, and
ConsumerGroupHeartbeat and ConsumerGroupDescribe of KIP-848.

Each goes to the coordinator of its group, or in parts to several; nothing about groups is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.broker.coordination.coordination import OFFSETS_TOPIC, Coordination
from ottla.broker.coordination.transactions import SENTENCE as TRANSACTIONS
from ottla.broker.coordination.transactions import NoTransactions
from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.authorization import OPERATIONS, Need, Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.topics import Topics
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, ERRORS, INVALID_REQUEST, NONE, UNSUPPORTED_VERSION

GROUP, TRANSACTION = 0, 1
MANY_KEYS_FROM = 4
NULL_PROTOCOL_FROM = 7

OfOneGroup = SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest


@serves(FindCoordinatorRequest)
def find_coordinator(
    request: Request[FindCoordinatorRequest],
    identity: BrokerIdentity,
    addresses: Addresses,
    topics: Topics,
    coordination: Coordination,
    transactions: NoTransactions,
) -> Reply:
    """This broker coordinates every group. The first that looks for a group's coordinator has `__consumer_offsets` made."""
    if request.body.key_type == TRANSACTION:
        error_code, sentence = transactions.refuse(request), TRANSACTIONS
    else:
        error_code, sentence = _no_coordinator(request, topics, coordination)
    node_id = -1 if error_code else identity.node_id
    host, port = ("", -1) if error_code else addresses.own(request.peer)
    if request.version < MANY_KEYS_FROM:
        return FindCoordinatorResponse(
            error_code=error_code, error_message=sentence or "NONE", node_id=node_id, host=host, port=port
        )
    found = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        coordinators=[
            found(key=key, node_id=node_id, host=host, port=port, error_code=error_code, error_message=sentence)
            for key in request.body.coordinator_keys
        ]
    )


def _no_coordinator(request: Request[FindCoordinatorRequest], topics: Topics, coordination: Coordination) -> tuple[int, str]:
    """The error code, and the sentence that goes with it, where a client cannot be told of a coordinator."""
    if request.body.key_type != GROUP:
        return INVALID_REQUEST, ERRORS[INVALID_REQUEST].sentence
    takes_a_moment = not request.release.is_today and topics.get(OFFSETS_TOPIC) is None  # as in every release of Kafka
    if coordination.ensure(request.now) or takes_a_moment:
        return COORDINATOR_NOT_AVAILABLE, ERRORS[COORDINATOR_NOT_AVAILABLE].sentence
    return NONE, ""


@serves(JoinGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"))
def join_group(request: Request[JoinGroupRequest], coordination: Coordination) -> Reply:
    """The reply may take as long as the others need to join. Before version 7 its protocol's name could not be null."""

    def combine(messages: list[JoinGroupResponse]) -> JoinGroupResponse:
        response = messages[0]
        if response.protocol_name is None and request.version < NULL_PROTOCOL_FROM:
            response.protocol_name = ""
        if response.error_code:
            response.generation_id = request.release.failed_generation
        return response

    return coordination.reply([coordination.ask(request.body.group_id, request.body, request)], combine, blocking=True)


def of_one_group(request: Request[OfOneGroup], coordination: Coordination) -> Reply:
    """SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat: the group's coordinator answers."""
    return coordination.reply([coordination.ask(request.body.group_id, request.body, request)], _only, blocking=True)


sync_group = serves(SyncGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"))(of_one_group)
heartbeat = serves(HeartbeatRequest, Need(Operation.READ, Resource.GROUP, "group_id"))(of_one_group)
leave_group = serves(LeaveGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"))(of_one_group)


@serves(ConsumerGroupHeartbeatRequest, Need(Operation.READ, Resource.GROUP, "group_id"))
def consumer_group_heartbeat(
    request: Request[ConsumerGroupHeartbeatRequest], coordination: Coordination, settings: SettingsInForce
) -> Reply:
    """As the others, if this broker serves the consumer protocol (KIP-848)."""
    if _serves_consumers(settings):
        return of_one_group(request, coordination)
    return ConsumerGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)


def _serves_consumers(settings: SettingsInForce) -> bool:
    return "consumer" in settings.value.group_coordinator_rebalance_protocols


def _only(messages: list[Any]) -> Any:
    return messages[0]


@serves(ListGroupsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER))
def list_groups(request: Request[ListGroupsRequest], coordination: Coordination) -> Reply:
    def combine(messages: list[ListGroupsResponse]) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[group for message in messages for group in message.groups])

    return coordination.reply(coordination.ask_all(request.body, request), combine)


def _with_operations(messages: Iterable[Any], included: bool) -> Iterator[Any]:
    """The groups of all messages; those that are there with what may be done to them, where that was asked for."""
    for group in (group for message in messages for group in message.groups):
        if included and not group.error_code:
            group.authorized_operations = OPERATIONS[Resource.GROUP]
        yield group


@serves(DescribeGroupsRequest, Need(Operation.DESCRIBE, Resource.GROUP, "groups"))
def describe_groups(request: Request[DescribeGroupsRequest], coordination: Coordination) -> Reply:
    body = request.body

    def combine(messages: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=list(_with_operations(messages, body.include_authorized_operations)))

    asked = [coordination.ask(group_id, DescribeGroupsRequest(groups=[group_id]), request) for group_id in body.groups]
    return coordination.reply(asked, combine)


@serves(ConsumerGroupDescribeRequest, Need(Operation.DESCRIBE, Resource.GROUP, "group_ids"))
def consumer_group_describe(
    request: Request[ConsumerGroupDescribeRequest], coordination: Coordination, settings: SettingsInForce
) -> Reply:
    body = request.body
    if not _serves_consumers(settings):
        Group = ConsumerGroupDescribeResponse.DescribedGroup
        groups = [Group(group_id=name, error_code=UNSUPPORTED_VERSION) for name in body.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)

    def combine(messages: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=list(_with_operations(messages, body.include_authorized_operations)))

    asked = [coordination.ask(name, ConsumerGroupDescribeRequest(group_ids=[name]), request) for name in body.group_ids]
    return coordination.reply(asked, combine)


@serves(DeleteGroupsRequest, Need(Operation.DELETE, Resource.GROUP, "groups_names"))
def delete_groups(request: Request[DeleteGroupsRequest], coordination: Coordination) -> Reply:
    names = dict.fromkeys(request.body.groups_names)

    def combine(messages: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = [result for message in messages for result in message.results]
        for result in results:
            result.error_message = ERRORS[result.error_code].sentence if result.error_code else None
        return DeleteGroupsResponse(results=results)

    asked = [coordination.ask(name, DeleteGroupsRequest(groups_names=[name]), request) for name in names]
    return coordination.reply(asked, combine)

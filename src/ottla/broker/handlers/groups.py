"""Groups: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups, and
ConsumerGroupHeartbeat and ConsumerGroupDescribe of KIP-848.

Each goes to the coordinator of its group, or in parts to several; nothing about groups is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.coordination import transactions
from ottla.broker.coordination.coordination import OFFSETS_TOPIC
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.list_groups import ListGroupsResponse
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, ERRORS, INVALID_REQUEST, NONE, UNSUPPORTED_VERSION

GROUP, TRANSACTION = 0, 1
MANY_KEYS_FROM = 4
NULL_PROTOCOL_FROM = 7

READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
EVERY_GROUP_OPERATION = sum(1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
"""As long as there are no ACLs, everybody may do all that can be done to a group."""


def handle_find_coordinator(broker: Broker, request: Request) -> Reply:
    """This broker coordinates every group. The first that looks for a group's coordinator has `__consumer_offsets` made."""
    body: FindCoordinatorRequest = request.body
    error_code, sentence = _no_coordinator(broker, request)
    node_id = -1 if error_code else broker.node_id
    host, port = ("", -1) if error_code else broker.advertised(request.peer)
    if request.version < MANY_KEYS_FROM:
        return FindCoordinatorResponse(
            error_code=error_code, error_message=sentence or "NONE", node_id=node_id, host=host, port=port
        )
    found = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        coordinators=[
            found(key=key, node_id=node_id, host=host, port=port, error_code=error_code, error_message=sentence)
            for key in body.coordinator_keys
        ]
    )


def _no_coordinator(broker: Broker, request: Request) -> tuple[int, str]:
    """The error code, and the sentence that goes with it, where a client cannot be told of a coordinator."""
    body: FindCoordinatorRequest = request.body
    if body.key_type == TRANSACTION:
        return broker.transactions.refuse(request), transactions.SENTENCE
    if body.key_type != GROUP:
        return INVALID_REQUEST, ERRORS[INVALID_REQUEST].sentence
    takes_a_moment = not request.release.is_today and broker.topics.get(OFFSETS_TOPIC) is None  # as in every release of Kafka
    if broker.coordination.ensure(request.now) or takes_a_moment:
        return COORDINATOR_NOT_AVAILABLE, ERRORS[COORDINATOR_NOT_AVAILABLE].sentence
    return NONE, ""


def handle_join_group(broker: Broker, request: Request) -> Reply:
    """The reply may take as long as the others need to join. Before version 7 its protocol's name could not be null."""

    def combine(messages: list[JoinGroupResponse]) -> JoinGroupResponse:
        response = messages[0]
        if response.protocol_name is None and request.version < NULL_PROTOCOL_FROM:
            response.protocol_name = ""
        if response.error_code:
            response.generation_id = request.release.failed_generation
        return response

    coordination = broker.coordination
    return coordination.reply([coordination.ask(request.body.group_id, request.body, request)], combine, blocking=True)


def handle_of_one_group(broker: Broker, request: Request) -> Reply:
    """SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat: the group's coordinator answers."""
    coordination = broker.coordination
    return coordination.reply([coordination.ask(request.body.group_id, request.body, request)], _only, blocking=True)


def handle_consumer_group_heartbeat(broker: Broker, request: Request) -> Reply:
    if _serves_consumers(broker):
        return handle_of_one_group(broker, request)
    return ConsumerGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)


def _serves_consumers(broker: Broker) -> bool:
    return "consumer" in broker.settings.group_coordinator_rebalance_protocols


def _only(messages: list[Any]) -> Any:
    return messages[0]


def handle_list_groups(broker: Broker, request: Request) -> Reply:
    def combine(messages: list[ListGroupsResponse]) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[group for message in messages for group in message.groups])

    return broker.coordination.reply(broker.coordination.ask_all(request.body, request), combine)


def _with_operations(messages: Iterable[Any], included: bool) -> Iterator[Any]:
    """The groups of all messages; those that are there with what may be done to them, where that was asked for."""
    for group in (group for message in messages for group in message.groups):
        if included and not group.error_code:
            group.authorized_operations = EVERY_GROUP_OPERATION
        yield group


def handle_describe_groups(broker: Broker, request: Request) -> Reply:
    body: DescribeGroupsRequest = request.body

    def combine(messages: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=list(_with_operations(messages, body.include_authorized_operations)))

    asked = [broker.coordination.ask(group_id, DescribeGroupsRequest(groups=[group_id]), request) for group_id in body.groups]
    return broker.coordination.reply(asked, combine)


def handle_consumer_group_describe(broker: Broker, request: Request) -> Reply:
    body: ConsumerGroupDescribeRequest = request.body
    if not _serves_consumers(broker):
        Group = ConsumerGroupDescribeResponse.DescribedGroup
        groups = [Group(group_id=name, error_code=UNSUPPORTED_VERSION) for name in body.group_ids]
        return ConsumerGroupDescribeResponse(groups=groups)

    def combine(messages: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=list(_with_operations(messages, body.include_authorized_operations)))

    coordination = broker.coordination
    asked = [coordination.ask(name, ConsumerGroupDescribeRequest(group_ids=[name]), request) for name in body.group_ids]
    return coordination.reply(asked, combine)


def handle_delete_groups(broker: Broker, request: Request) -> Reply:
    names = dict.fromkeys(request.body.groups_names)

    def combine(messages: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = [result for message in messages for result in message.results]
        for result in results:
            result.error_message = ERRORS[result.error_code].sentence if result.error_code else None
        return DeleteGroupsResponse(results=results)

    asked = [broker.coordination.ask(name, DeleteGroupsRequest(groups_names=[name]), request) for name in names]
    return broker.coordination.reply(asked, combine)


HANDLERS: Handlers = {
    10: (range(7), handle_find_coordinator),
    11: (range(10), handle_join_group),
    12: (range(5), handle_of_one_group),
    13: (range(6), handle_of_one_group),
    14: (range(6), handle_of_one_group),
    15: (range(7), handle_describe_groups),
    16: (range(6), handle_list_groups),
    42: (range(4), handle_delete_groups),
    68: (range(2), handle_consumer_group_heartbeat),
    69: (range(2), handle_consumer_group_describe),
}

"""Groups: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups, and
ConsumerGroupHeartbeat and ConsumerGroupDescribe of KIP-848.

Each goes to the coordinator of its group, or in parts to several; no rule about groups is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.identity import BrokerIdentity
from ottla.broker.scheduler import Steps
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.authorization import OPERATIONS, Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.refusals import told
from ottla.broker.serving.request import Encoded, Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices, awaited
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.features import Features
from ottla.cluster.features import GROUP_VERSION, OFF
from ottla.coord.consumer.names import AT_ONCE, TopicNames
from ottla.coord.group_machine import GroupMachine
from ottla.coord.transactions.machine import TransactionMachine
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
from ottla.wire.codec.blocks import BlockWriter
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, ERRORS, INVALID_REQUEST, NONE, UNSUPPORTED_VERSION
from ottla.wire.schema import Message

GROUP, TRANSACTION = 0, 1
MANY_KEYS_FROM = 4
NULL_PROTOCOL_FROM = 7

MOST_PROTOCOLS = 1000
"""That a member may say it can follow: clients have a few."""

MOST_MEMBERS = 10_000
"""In one request of a group's leader, or of who removes members: more would hold up others."""

MOST_TOPICS = 50_000
"""That a member of a consumer group may name: what it subscribes to, and what it has."""

Described = TypeVar("Described", DescribeGroupsResponse.DescribedGroup, ConsumerGroupDescribeResponse.DescribedGroup)


@serves(FindCoordinatorRequest, slices=Slices(((("coordinator_keys",), ("coordinators",)),)))
def find_coordinator(
    request: Request[FindCoordinatorRequest],
    identity: BrokerIdentity,
    addresses: Addresses,
    groups: Coordinators[GroupMachine],
    transactions: Coordinators[TransactionMachine],
) -> Reply:
    """This broker coordinates every group and every transactional id. The first request for one creates their internal topic."""
    error_code, sentence = _no_coordinator(request, {GROUP: groups, TRANSACTION: transactions})
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


def _no_coordinator(
    request: Request[FindCoordinatorRequest], kinds: Mapping[int, Coordinators[GroupMachine] | Coordinators[TransactionMachine]]
) -> tuple[int, str]:
    """Why a client cannot be told a coordinator, as error code and sentence; NONE and no sentence if it can."""
    coordinators = kinds.get(request.body.key_type)
    if coordinators is None:
        return INVALID_REQUEST, ERRORS[INVALID_REQUEST].sentence
    takes_a_moment = request.release.is_late_with_groups and not coordinators.count
    if coordinators.ensure(request.now) or takes_a_moment:
        return COORDINATOR_NOT_AVAILABLE, ERRORS[COORDINATOR_NOT_AVAILABLE].sentence
    return NONE, ""


@serves(JoinGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_PROTOCOLS)
def join_group(request: Request[JoinGroupRequest], groups: Coordinators[GroupMachine]) -> Reply:
    """The reply may take as long as the others need to join. Before version 7 its protocol's name could not be null."""

    def finish(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.protocol_name is None and request.version < NULL_PROTOCOL_FROM:
            response.protocol_name = ""
        if response.error_code:
            response.generation_id = request.release.failed_generation
        return response

    return groups.ask_one(request.body.group_id, request.body, request, finish, blocking=True)


@serves(SyncGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_MEMBERS)
def sync_group(request: Request[SyncGroupRequest], groups: Coordinators[GroupMachine]) -> Reply:
    """The reply may take as long as the leader needs to assign."""
    return groups.ask_one(request.body.group_id, request.body, request, _unchanged, blocking=True)


@serves(HeartbeatRequest, Need(Operation.READ, Resource.GROUP, "group_id"))
def heartbeat(request: Request[HeartbeatRequest], groups: Coordinators[GroupMachine]) -> Reply:
    return groups.ask_one(request.body.group_id, request.body, request, _unchanged, blocking=True)


@serves(LeaveGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_MEMBERS)
def leave_group(request: Request[LeaveGroupRequest], groups: Coordinators[GroupMachine]) -> Reply:
    return groups.ask_one(request.body.group_id, request.body, request, _unchanged, blocking=True)


@serves(ConsumerGroupHeartbeatRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_TOPICS)
def consumer_group_heartbeat(
    request: Request[ConsumerGroupHeartbeatRequest],
    groups: Coordinators[GroupMachine],
    settings: SettingsInForce,
    features: Features,
    later: LaterReplies,
) -> Reply:
    """Served if the settings and the level of the feature allow the consumer protocol (KIP-848).

    Names by the thousand are put in order, and their topics hashed, before the coordinator is asked.
    """
    if not _serves_consumers(settings, features):
        return ConsumerGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)
    if len(request.body.subscribed_topic_names or ()) > AT_ONCE:
        return later.computed(_heard_slowly(request, groups))
    return groups.ask_one(request.body.group_id, request.body, request, _unchanged, blocking=True)


def _heard_slowly(request: Request[ConsumerGroupHeartbeatRequest], groups: Coordinators[GroupMachine]) -> Steps[Reply]:
    body = request.body
    names = yield from TopicNames.slowly(body.subscribed_topic_names or [])
    machine = groups.machine_of(body.group_id, request.now)
    if machine is not None:
        yield from machine.consumers.prepare(body.group_id, body.member_id, names)
    body.subscribed_topic_names = names  # type: ignore[assignment]  # the coordinator needs no list, but names without order
    return groups.ask_one(body.group_id, body, request, _unchanged, blocking=True)


def _serves_consumers(settings: SettingsInForce, features: Features) -> bool:
    return "consumer" in settings.value.group_coordinator_rebalance_protocols and features.level(GROUP_VERSION) != OFF


def _unchanged(message: Message) -> Message:
    return message


@serves(ListGroupsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER))
def list_groups(request: Request[ListGroupsRequest], groups: Coordinators[GroupMachine], later: LaterReplies) -> Reply:
    """All groups: one coordinator after the other is asked, and what it answers is encoded before the next one is."""
    return later.computed(_listed_slowly(request, groups, later))


def _listed_slowly(request: Request[ListGroupsRequest], groups: Coordinators[GroupMachine], later: LaterReplies) -> Steps[Reply]:
    writer = BlockWriter(request.version, ("groups",))
    writer.add(told(request, ListGroupsResponse()))
    for reply in groups.ask_each(request.body, request, _unchanged):
        message = yield from awaited(later, reply)
        if isinstance(message, ListGroupsResponse):
            writer.add(told(request, message))
        yield None
    return Encoded(writer.parts())


def _with_operations(groups: list[Described], *, included: bool) -> list[Described]:
    """The groups; with `included` those that exist have their authorized operations."""
    for group in groups:
        if included and not group.error_code:
            group.authorized_operations = OPERATIONS[Resource.GROUP]
    return groups


@serves(
    DescribeGroupsRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "groups"),
    slices=Slices(((("groups",), ("groups",)),), things=20, whole_bytes=512),
)
def describe_groups(request: Request[DescribeGroupsRequest], groups: Coordinators[GroupMachine]) -> Reply:
    body = request.body

    def combine(messages: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        described = [group for message in messages for group in message.groups]
        return DescribeGroupsResponse(groups=_with_operations(described, included=body.include_authorized_operations))

    parts = ((name, DescribeGroupsRequest(groups=[name])) for name in body.groups)
    return groups.ask_several(parts, request, combine)


@serves(
    ConsumerGroupDescribeRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "group_ids"),
    slices=Slices(((("group_ids",), ("groups",)),), things=20, whole_bytes=512),
)
def consumer_group_describe(
    request: Request[ConsumerGroupDescribeRequest],
    groups: Coordinators[GroupMachine],
    settings: SettingsInForce,
    features: Features,
) -> Reply:
    body = request.body
    if not _serves_consumers(settings, features):
        group = ConsumerGroupDescribeResponse.DescribedGroup
        refused = [group(group_id=name, error_code=UNSUPPORTED_VERSION) for name in body.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)

    def combine(messages: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
        described = [group for message in messages for group in message.groups]
        return ConsumerGroupDescribeResponse(groups=_with_operations(described, included=body.include_authorized_operations))

    parts = ((name, ConsumerGroupDescribeRequest(group_ids=[name])) for name in body.group_ids)
    return groups.ask_several(parts, request, combine)


@serves(
    DeleteGroupsRequest,
    Need(Operation.DELETE, Resource.GROUP, "groups_names"),
    slices=Slices(((("groups_names",), ("results",)),), things=100),
)
def delete_groups(request: Request[DeleteGroupsRequest], groups: Coordinators[GroupMachine]) -> Reply:
    names = dict.fromkeys(request.body.groups_names)

    def combine(messages: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = [result for message in messages for result in message.results]
        for result in results:
            result.error_message = ERRORS[result.error_code].sentence if result.error_code else None
        return DeleteGroupsResponse(results=results)

    parts = ((name, DeleteGroupsRequest(groups_names=[name])) for name in names)
    return groups.ask_several(parts, request, combine)

"""The group APIs: FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups, and
ConsumerGroupHeartbeat and ConsumerGroupDescribe of KIP-848.

Each request goes to the coordinator of its group, or in parts to several; the rules of groups are in `coord`. From version 4 on,
the first response to JoinGroup is MEMBER_ID_REQUIRED (KIP-394); JoinGroup has static members from 5 on (KIP-345), and a null
protocol name from 7 on. FindCoordinator names many keys from version 4 on. LeaveGroup names several members from 3 on. ListGroups
filters by state from 4 on, by type from 5 on. FindCoordinator finds share coordinators from 6 on (KIP-932), for brokers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import Final

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.coordination.share_group_states import ShareGroupStates
from ottla.broker.coordination.share_states import ShareStateShards
from ottla.broker.coordination.transactions import TransactionShards
from ottla.broker.handlers.described_groups import MEMBERS, DescribedKind, describe_by_kind, described_slowly, with_operations
from ottla.broker.identity import BrokerIdentity
from ottla.broker.security.rights import Rights
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.authorization import DENIED, Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Peer, Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.topics.features import Features
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.features import GROUP_VERSION, OFF
from ottla.cluster.image import ClusterImage
from ottla.coord.consumer.names import AT_ONCE, TopicNames
from ottla.coord.memory import MOST_OF_ONE
from ottla.coord.share.events import DeletingShares, ShareStateDeletion
from ottla.coord.share_state.inputs import parse_coordinator_key
from ottla.ports import Steps
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
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_NOT_AVAILABLE,
    ERRORS,
    INVALID_REQUEST,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)
from ottla.wire.schema import Message

GROUP, TRANSACTION, SHARE = 0, 1, 2
RESOURCES = {GROUP: Resource.GROUP, TRANSACTION: Resource.TRANSACTIONAL_ID}
MANY_KEYS_FROM = 4
SHARE_KEYS_FROM = 6
NULL_PROTOCOL_FROM = 7

MOST_PROTOCOLS = 1000
"""Upper limit of protocols per member: clients have a few."""

MOST_MEMBERS = 10_000
"""Upper limit of members in a SyncGroup or LeaveGroup request. More members would delay other requests."""

MOST_GROUP_BYTES = 2 * MOST_OF_ONE
"""Upper limit of a classic member's metadata, in bytes. A smaller member that is too large for its group gets an error code."""

MOST_FILTERS = 1000
"""Upper limit of states and types in ListGroups."""

MOST_TOPICS = 50_000
MOST_NAMED_BYTES = 16 << 20
"""Upper limits of topics and bytes in a ConsumerGroupHeartbeat, which has the subscription and the owned partitions."""

DELETED_AT_ONCE = 10
"""Groups deleted in one step. One step of the deletion of a group's offsets takes two milliseconds."""

Coordinator = FindCoordinatorResponse.Coordinator
Kinds = Mapping[int, GroupShards | TransactionShards | ShareStateShards]


@serves(FindCoordinatorRequest, parts=Parts(((("coordinator_keys",), ("coordinators",)),)))
def find_coordinator(
    request: Request[FindCoordinatorRequest],
    identity: BrokerIdentity,
    addresses: Addresses,
    groups: GroupShards,
    transactions: TransactionShards,
    share_states: ShareStateShards,
    rights: Rights,
) -> Reply:
    """Return the coordinator of each key: the leader of the key's partition. The first request creates the internal topic."""
    body = request.body
    is_one = request.version < MANY_KEYS_FROM
    resource = RESOURCES.get(body.key_type)
    denied = _find_denied(request, rights, resource, [body.key] if is_one else body.coordinator_keys) if resource else frozenset()
    is_denied_all = len(denied) == (1 if is_one else len(set(body.coordinator_keys))) > 0
    kinds: Kinds = {GROUP: groups, TRANSACTION: transactions, SHARE: share_states}
    find = partial(_find_coordinators, request, addresses, kinds, denied)
    coordinators = kinds.get(body.key_type)
    if coordinators is None or (body.key_type == SHARE and request.version < SHARE_KEYS_FROM):
        return find(INVALID_REQUEST)
    if body.key_type == SHARE and not _may_act(request, rights):
        return find(CLUSTER_AUTHORIZATION_FAILED)
    is_malformed = body.key_type == SHARE and not any(map(parse_coordinator_key, body.coordinator_keys))
    if is_denied_all or is_malformed or coordinators.count:
        return find(NONE)
    return _find_when_created(coordinators, find, is_late=request.release.is_late_with_groups)


def _may_act(request: Request[FindCoordinatorRequest], rights: Rights) -> bool:
    """Return whether the client may act as a broker, and log a refusal."""
    return rights.check(request.peer, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, request.api.name, request.now)


def _find_when_created(
    coordinators: GroupShards | TransactionShards | ShareStateShards,
    find: Callable[[int], FindCoordinatorResponse],
    *,
    is_late: bool,
) -> Steps[Reply]:
    """Create the internal topic, then find coordinators. Releases that are late with groups let the first client try again."""
    error_code = yield from coordinators.ensure()
    return find(COORDINATOR_NOT_AVAILABLE if is_late else error_code)


def _find_coordinators(
    request: Request[FindCoordinatorRequest], addresses: Addresses, kinds: Kinds, denied: frozenset[str], common: int
) -> FindCoordinatorResponse:
    """Return the coordinator of each key, or the error code `common` for all keys that are not denied."""
    body = request.body
    is_one = request.version < MANY_KEYS_FROM
    resource = RESOURCES.get(body.key_type)
    found = []
    for key in [body.key] if is_one else body.coordinator_keys:
        error_code = DENIED[resource] if resource is not None and key in denied else common
        share_key = parse_coordinator_key(key) if body.key_type == SHARE and not error_code else None
        if body.key_type == SHARE and not error_code and share_key is None:
            error_code = INVALID_REQUEST
        if error_code:
            sentence = ERRORS[error_code].sentence
            found.append(Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=sentence))
        else:
            routed = key if share_key is None else share_key.coordinator_key()
            found.append(_coordinator(key, kinds[body.key_type].node_of(routed), addresses, request.peer))
    if not is_one:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    sentence = one.error_message or "NONE"
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=sentence, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(key: str, node_id: int, addresses: Addresses, peer: Peer) -> Coordinator:
    """Return the result for a key whose coordinator is `node_id`; a negative number means no coordinator."""
    address = addresses.of(node_id, peer)
    if address is None:
        sentence = ERRORS[COORDINATOR_NOT_AVAILABLE].sentence
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=COORDINATOR_NOT_AVAILABLE, error_message=sentence)
    host, port = address
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=NONE, error_message="")


def _find_denied(request: Request[FindCoordinatorRequest], rights: Rights, resource: Resource, keys: list[str]) -> frozenset[str]:
    """Return the groups or transactional ids that the client may not describe."""
    return frozenset(rights.find_denied(request.peer, Operation.DESCRIBE, resource, keys, request.api.name, request.now))


@serves(JoinGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_PROTOCOLS, most_bytes=MOST_GROUP_BYTES)
def join_group(request: Request[JoinGroupRequest], groups: GroupShards) -> Reply:
    """Join a group. The reply is delayed until the other members have joined. Before version 7 the protocol name can't be null."""

    def finish(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.protocol_name is None and request.version < NULL_PROTOCOL_FROM:
            response.protocol_name = ""
        if response.error_code:
            response.generation_id = request.release.failed_generation
        return response

    return groups.request(request.body.group_id, request.body, request, finish, blocking=True)


@serves(SyncGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_MEMBERS, most_bytes=MOST_GROUP_BYTES)
def sync_group(request: Request[SyncGroupRequest], groups: GroupShards) -> Reply:
    """Return the member's assignment. The reply is delayed until the group's leader has sent the assignments."""
    return groups.request(request.body.group_id, request.body, request, _unchanged_message, blocking=True)


@serves(HeartbeatRequest, Need(Operation.READ, Resource.GROUP, "group_id"))
def heartbeat(request: Request[HeartbeatRequest], groups: GroupShards) -> Reply:
    return groups.request(request.body.group_id, request.body, request, _unchanged_message, blocking=True)


@serves(LeaveGroupRequest, Need(Operation.READ, Resource.GROUP, "group_id"), most=MOST_MEMBERS)
def leave_group(request: Request[LeaveGroupRequest], groups: GroupShards) -> Reply:
    return groups.request(request.body.group_id, request.body, request, _unchanged_message, blocking=True)


@serves(
    ConsumerGroupHeartbeatRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    most=MOST_TOPICS,
    most_bytes=MOST_NAMED_BYTES,
)
def consumer_group_heartbeat(
    request: Request[ConsumerGroupHeartbeatRequest],
    groups: GroupShards,
    settings: SettingsInForce,
    features: Features,
    rights: Rights,
    cluster: ClusterImage,
) -> Reply:
    """Serve a heartbeat if the settings and the feature level allow the consumer protocol (KIP-848).

    Thousands of names are sorted, and their topics hashed, before the coordinator gets the request.
    """
    if not _serves_consumers(settings, features):
        return ConsumerGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)
    if _hides_some(request, rights, request.body.subscribed_topic_names or ()):
        sentence = ERRORS[TOPIC_AUTHORIZATION_FAILED].sentence
        return ConsumerGroupHeartbeatResponse(error_code=TOPIC_AUTHORIZATION_FAILED, error_message=sentence)
    tell = _unchanged_message if rights.is_unlimited(request.peer) else partial(_without_hidden, request.peer, rights, cluster)
    if len(request.body.subscribed_topic_names or ()) > AT_ONCE:
        return _heartbeat_slowly(request, groups, tell)
    return groups.request(request.body.group_id, request.body, request, tell, blocking=True)


def _without_hidden(peer: Peer, rights: Rights, cluster: ClusterImage, message: Message) -> Message:
    """Return the heartbeat response without the topics that a pattern matches but the member may not describe."""
    assert isinstance(message, ConsumerGroupHeartbeatResponse), "what a coordinator answers to a heartbeat"
    if message.assignment is None:
        return message
    seen = rights.answers(peer, Operation.DESCRIBE, Resource.TOPIC)
    given = message.assignment.topic_partitions
    left = [each for each in given if (name := cluster.name_of(each.topic_id)) is not None and seen[name]]
    if len(left) == len(given):
        return message
    shown = copy(message)
    shown.assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=left)
    return shown


def _hides_some(request: Request[ConsumerGroupHeartbeatRequest], rights: Rights, names: Iterable[str]) -> bool:
    """Return whether a member names topics that it may not describe, and log that. The caller refuses the whole heartbeat."""
    hidden = not rights.is_open and rights.find_denied(
        request.peer, Operation.DESCRIBE, Resource.TOPIC, names, request.api.name, request.now
    )
    return bool(hidden)


def _heartbeat_slowly(
    request: Request[ConsumerGroupHeartbeatRequest], groups: GroupShards, tell: Callable[[Message], Message]
) -> Steps[Reply]:
    body = request.body
    names = yield from TopicNames.slowly(body.subscribed_topic_names or [])
    machine = groups.machine_of(body.group_id)
    if machine is not None:
        yield from machine.consumers.prepare(body.group_id, body.member_id, names)
    body.subscribed_topic_names = names  # type: ignore[assignment]  # the coordinator needs no list, but names without order
    return groups.request(body.group_id, body, request, tell, blocking=True)


def _serves_consumers(settings: SettingsInForce, features: Features) -> bool:
    return "consumer" in settings.value.group_coordinator_rebalance_protocols and features.level(GROUP_VERSION) != OFF


def _unchanged_message(message: Message) -> Message:
    return message


@serves(ListGroupsRequest, most=MOST_FILTERS)
def list_groups(request: Request[ListGroupsRequest], groups: GroupShards, purgatory: Purgatory, rights: Rights) -> Steps[Reply]:
    """List the groups that the client may describe, one coordinator at a time.

    A client that may describe the cluster gets all groups.
    """
    sees_all = rights.may(request.peer, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    seen = rights.answers(request.peer, Operation.DESCRIBE, Resource.GROUP)
    writer = ResponseWriter(request, ("groups",), ListGroupsResponse(error_code=groups.loading_error))
    for reply in groups.request_each(request.body, request, _unchanged_message):
        message = yield from purgatory.wait_for(reply)
        if isinstance(message, ListGroupsResponse):
            if not sees_all:
                message.groups = [group for group in message.groups if seen[group.group_id]]
            writer.add(message)
        yield None
    return writer.reply()


@serves(
    DescribeGroupsRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "groups"),
    parts=Parts(((("groups",), ("groups",)),), things=20, whole_bytes=64, together=True),
)
def describe_groups(
    request: Request[DescribeGroupsRequest], groups: GroupShards, purgatory: Purgatory, rights: Rights
) -> Steps[Reply]:
    """Describe the groups, a few at a time by the size of their members, because a group can have thousands of members."""
    asks = request.body.include_authorized_operations

    def combine(messages: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        described = [group for message in messages for group in message.groups]
        return DescribeGroupsResponse(groups=with_operations(described, request.peer, rights, included=asks))

    def describe(names: list[str]) -> Reply:
        return groups.request_several(((name, DescribeGroupsRequest(groups=[name])) for name in names), request, combine)

    writer = ResponseWriter(request, MEMBERS, DescribeGroupsResponse())
    return (yield from described_slowly(request, lambda body: body.groups, groups, purgatory, writer, describe))


@serves(
    ConsumerGroupDescribeRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "group_ids"),
    parts=Parts(((("group_ids",), ("groups",)),), things=20, whole_bytes=64, together=True),
)
def consumer_group_describe(
    request: Request[ConsumerGroupDescribeRequest],
    groups: GroupShards,
    settings: SettingsInForce,
    features: Features,
    purgatory: Purgatory,
    rights: Rights,
) -> Steps[Reply]:
    """Describe consumer groups."""
    is_served = _serves_consumers(settings, features)
    return (yield from describe_by_kind(request, _CONSUMER, groups, purgatory, rights, is_served=is_served))


def _topics_of(group: ConsumerGroupDescribeResponse.DescribedGroup) -> Iterator[str]:
    """Yield the topics in the members' assignments and target assignments."""
    for member in group.members:
        yield from (each.topic_name for each in member.assignment.topic_partitions)
        yield from (each.topic_name for each in member.target_assignment.topic_partitions)


_CONSUMER: Final = DescribedKind(
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupDescribeResponse.DescribedGroup, _topics_of
)


@serves(
    DeleteGroupsRequest,
    Need(Operation.DELETE, Resource.GROUP, "groups_names"),
    parts=Parts(((("groups_names",), ("results",)),), things=DELETED_AT_ONCE, whole_bytes=64),
    to_the_end=True,
)
def delete_groups(
    request: Request[DeleteGroupsRequest], groups: GroupShards, states: ShareGroupStates, shares: SharePartitions
) -> Reply:
    """Delete groups. The state of a share group's partitions is deleted first; if that fails, the group stays."""
    names = list(dict.fromkeys(request.body.groups_names))

    def combine(messages: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = [result for message in messages for result in message.results]
        for result in results:
            result.error_message = ERRORS[result.error_code].sentence if result.error_code else None
        return DeleteGroupsResponse(results=results)

    if any(_has_share_state(groups, name) for name in names):
        return _delete_slowly(request, names, groups, partial(_delete_share_state, request, groups, states, shares), combine)
    parts = ((name, DeleteGroupsRequest(groups_names=[name])) for name in names)
    return groups.request_several(parts, request, combine)


def _has_share_state(groups: GroupShards, name: str) -> bool:
    machine = groups.machine_of(name)
    group = None if machine is None else machine.shares.groups.get(name)
    return group is not None and group.has_state


def _delete_slowly(
    request: Request[DeleteGroupsRequest],
    names: list[str],
    groups: GroupShards,
    delete_state: Callable[[str], Steps[int]],
    combine: Callable[[list[DeleteGroupsResponse]], DeleteGroupsResponse],
) -> Steps[Reply]:
    """Delete groups one by one, each after its share partitions."""
    messages: list[DeleteGroupsResponse] = []
    for name in names:
        error_code = yield from delete_state(name)
        if error_code:
            result = DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=error_code)
            messages.append(DeleteGroupsResponse(results=[result]))
        else:
            messages.append((yield from groups.request_steps(name, DeleteGroupsRequest(groups_names=[name]), request)))
    return combine(messages)


def _delete_share_state(
    request: Request[DeleteGroupsRequest], groups: GroupShards, states: ShareGroupStates, shares: SharePartitions, name: str
) -> Steps[int]:
    """Delete the state of all share partitions of a group, and return the first error."""
    deleting: DeletingShares = yield from groups.request_steps(name, ShareStateDeletion(name), request)
    if deleting.error_code or not deleting.places:
        return deleting.error_code
    results = yield from states.delete(name, deleting.places)
    shares.drop_group(name)
    return next((result.error_code for result in results if result.error_code), NONE)

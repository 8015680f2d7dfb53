"""Requests of operators about groups. The module decides which coordinators get a request, and what is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.client.admin import groups as asked
from ottla.client.admin.groups import CLASSIC, CONSUMER, DEAD, GroupDescription, GroupListing, GroupMember, Offsets
from ottla.client.admin.results import ResultList, Results, outcome
from ottla.client.connection.older_brokers import ONE_GROUP_TO_OFFSET_FETCH, SEVERAL_FROM_LEAVE_GROUP
from ottla.client.connection.versions import LEAVE_GROUP, OFFSET_FETCH
from ottla.client.consumer.committed_offsets import fetch_offsets_request, read_fetch_offsets
from ottla.client.errors import BrokerError, KafkaError, NotSupported, broker_error
from ottla.client.types import TopicPartition
from ottla.net.client.admin.bulk import BulkCall, Outcomes, Query, on_coordinators
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_fetch import OffsetFetchResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION

REASON: Final = "removed by an operator"


def listings_query(cluster: ClusterLinks, states: Sequence[str], types: Sequence[str]) -> Query[int, list[GroupListing]]:
    """Return the function that lists the groups of one broker, by its node id."""

    async def query(node_id: int, some: list[int]) -> Outcomes[int, list[GroupListing]]:
        answer = await cluster.request(node_id, ListGroupsRequest(states_filter=list(states), types_filter=list(types)))
        return [(node_id, asked.read_groups(answer))]

    return query


async def filter_groups(
    cluster: ClusterLinks, found: Iterable[GroupListing], states: Sequence[str], types: Sequence[str], protocols: Sequence[str]
) -> list[GroupListing]:
    """Return the groups with one of these states, types and protocol types, sorted. Older brokers do not filter."""
    groups = sorted(found)
    if types:  # brokers before Kafka 3.8 do not filter, and have classic groups only
        groups = [group for group in groups if (group.group_type or CLASSIC) in types]
    if protocols:
        groups = [group for group in groups if group.protocol_type in protocols]
    if states:  # brokers before Kafka 2.6 do not filter, and list no states
        unknown = await describe_groups(cluster, [group.group_id for group in groups if not group.state])
        groups = [group._replace(state=unknown[group.group_id].state) if group.group_id in unknown else group for group in groups]
    return [group for group in groups if not states or group.state in states]


async def describe_groups(cluster: ClusterLinks, group_ids: Iterable[str]) -> Results[str, GroupDescription]:
    """Return groups of all kinds by id, in the given order. Raises `KafkaError` if one of them cannot be described."""
    call = BulkCall(cluster, group_ids, on_coordinators(cluster, GROUP), descriptions_query(cluster))
    return (await call.run()).raise_first()


def descriptions_query(cluster: ClusterLinks, *, operations: bool = False) -> Query[str, GroupDescription]:
    """Return the function that describes groups of one coordinator. A group that does not exist has the state Dead."""

    async def query(node_id: int, names: list[str]) -> Outcomes[str, GroupDescription]:
        """Send one request for each kind of groups, until all groups are found."""
        found: dict[str, GroupDescription | KafkaError] = {}
        missing: dict[str, GroupDescription] = {}
        for request, read in asked.DESCRIPTIONS:
            rest = [name for name in names if name not in found]
            if not rest:
                break
            try:
                answer = await cluster.request(node_id, request(rest, operations))
            except NotSupported:
                if not missing:  # no broker lacks the request for classic groups but those before groups
                    raise
                continue
            for error_code, message, group in read(answer):
                if error_code in (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
                    continue
                described = outcome(error_code, group._replace(coordinator_id=node_id), f"Group {group.group_id}", message)
                if isinstance(described, GroupDescription) and described.state == DEAD:
                    missing[group.group_id] = described
                else:
                    found[group.group_id] = described
        return [*{**missing, **found}.items()]

    return query


def offsets_query(
    cluster: ClusterLinks, partitions: Sequence[TopicPartition] | None, *, require_stable: bool
) -> Query[str, Offsets]:
    """Return the function that fetches the committed offsets of groups of one coordinator: in one request since Kafka 3.0."""

    async def query(node_id: int, names: list[str]) -> Outcomes[str, Offsets]:
        link = await cluster.link(node_id)
        if link.version(OFFSET_FETCH) > ONE_GROUP_TO_OFFSET_FETCH:
            request = asked.offsets_of_groups_request(names, partitions, require_stable=require_stable)
            return asked.read_offsets_of_groups(await cluster.request(node_id, request))
        asks = (_fetch_from(cluster, node_id, name, partitions, require_stable=require_stable) for name in names)
        return zip(names, await asyncio.gather(*asks), strict=True)

    return query


async def _fetch_from(
    cluster: ClusterLinks, node_id: int, group_id: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool
) -> Offsets | KafkaError:
    try:
        request = fetch_offsets_request(group_id, partitions, require_stable=require_stable)
        answer: OffsetFetchResponse = await cluster.request(node_id, request)
    except NotSupported:  # before Kafka 0.10.2, a request names all its partitions
        await cluster.refresh(None)
        topics = cluster.metadata.topics.values()
        everything = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        answer = await cluster.request(node_id, fetch_offsets_request(group_id, everything, require_stable=require_stable))
    if answer.error_code:
        return broker_error(answer.error_code, f"Group {group_id}")
    return asked.committed(read_fetch_offsets(answer))


async def remove_members(
    cluster: ClusterLinks, group_id: str, names: Sequence[str] | None, reason: str | None
) -> ResultList[GroupMember]:
    """Remove members from a group by member ids or instance ids (None: all of them). Return the removed members."""
    group = (await describe_groups(cluster, [group_id]))[group_id]
    if group.group_type not in (CLASSIC, CONSUMER):
        raise NotSupported(f"Group {group_id} is a {group.group_type} group: Kafka removes no members from it; stop them.")
    members = group.members if names is None else [_find_member(group, name) for name in dict.fromkeys(names)]
    classic = [member for member in members if group.group_type == CLASSIC or member.is_classic]
    errors: dict[str, KafkaError] = {}
    for member in members:
        if member not in classic:
            request = asked.heartbeat_of_leaving(group_id, member)
            answer: ConsumerGroupHeartbeatResponse = await cluster.request(group.coordinator_id, request)
            if answer.error_code:
                context = f"Member {member.member_id} of group {group_id}"
                errors[member.member_id] = broker_error(answer.error_code, context, answer.error_message)
    if classic:
        link = await cluster.link(group.coordinator_id)
        together = link.version(LEAVE_GROUP) >= SEVERAL_FROM_LEAVE_GROUP
        for some in [classic] if together else [[member] for member in classic]:
            left = await cluster.request(group.coordinator_id, asked.leave_request(group_id, some, reason or REASON))
            errors |= {member_id: error for member_id, error in asked.read_left(left, group_id) if error is not None}
    return ResultList((member for member in members if member.member_id not in errors), errors)


def _find_member(group: GroupDescription, name: str) -> GroupMember:
    """Return the member with this member id, or this instance id. Raises `BrokerError`."""
    matches: tuple[Callable[[GroupMember], str | None], ...] = (lambda one: one.member_id, lambda one: one.group_instance_id)
    for identity in matches:
        for member in group.members:
            if identity(member) == name:
                return member
    raise BrokerError(UNKNOWN_MEMBER_ID, f"Member {name} of group {group.group_id}")

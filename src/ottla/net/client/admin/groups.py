"""Requests of operators about groups. The module decides which coordinators get a request, and what is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.client.admin import groups as asked
from ottla.client.admin.groups import CLASSIC, CONSUMER, DEAD, GroupDescription, GroupListing, GroupMember, ShareOffset
from ottla.client.connection.older_brokers import SEVERAL_FROM_LEAVE_GROUP
from ottla.client.connection.versions import LEAVE_GROUP
from ottla.client.consumer.committed_offsets import NOTHING_COMMITTED, fetch_offsets_request, read_fetch_offsets
from ottla.client.errors import BrokerError, KafkaError, NotSupported, raise_for
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, find_coordinator, find_coordinators
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_fetch import OffsetFetchResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION

AT_A_TIME: Final = 100
"""The maximum number of groups in one request, or of requests that a coordinator has at a time."""
REASON: Final = "removed by an operator"

Offsets = dict[TopicPartition, OffsetAndMetadata]


async def list_groups(cluster: ClusterLinks, states: Sequence[str], types: Sequence[str]) -> list[GroupListing]:
    """Return the groups of all brokers with one of these states and types, sorted; all groups without a filter."""

    async def attempt() -> list[GroupListing]:
        answers = await cluster.request_each(ListGroupsRequest(states_filter=list(states), types_filter=list(types)))
        return sorted(group for answer in answers.values() for group in asked.read_groups(answer))

    found = await cluster.retry(attempt)
    if types:  # brokers before Kafka 3.8 do not filter, and have classic groups only
        found = [group for group in found if (group.group_type or CLASSIC) in types]
    if states:  # brokers before Kafka 2.6 do not filter, and list no states
        unknown = await describe_groups(cluster, [group.group_id for group in found if not group.state])
        found = [group._replace(state=unknown[group.group_id].state) if group.group_id in unknown else group for group in found]
    return [group for group in found if not states or group.state in states]


async def find_coordinators_of(cluster: ClusterLinks, group_ids: Sequence[str]) -> dict[int, list[str]]:
    """Return the groups of each coordinator, by its node id. Raises `KafkaError`."""
    try:
        return await find_coordinators(cluster, group_ids, GROUP)
    except NotSupported:  # before Kafka 3.0, one request finds one coordinator
        nodes = [await find_coordinator(cluster, group_id, GROUP) for group_id in group_ids]
        return {node: [group for group, at in zip(group_ids, nodes, strict=True) if at == node] for node in dict.fromkeys(nodes)}


async def describe_groups(cluster: ClusterLinks, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
    """Return groups of all kinds by id, in the given order. A group that does not exist has the state Dead."""
    wanted = list(dict.fromkeys(group_ids))
    found: dict[str, GroupDescription] = {}

    async def describe_rest() -> None:
        some = [name for name in wanted if name not in found][:AT_A_TIME]
        await cluster.refresh([])
        by_node = await find_coordinators_of(cluster, some)
        answers = await asyncio.gather(
            *(_describe_on(cluster, node_id, names, found) for node_id, names in by_node.items()), return_exceptions=True
        )
        # Errors that are not retriable come first.
        failures = sorted((each for each in answers if isinstance(each, KafkaError)), key=lambda error: error.retriable)
        for error in [*failures, *(each for each in answers if each is not None)]:
            raise error
        for name in some:
            if name not in found:
                raise_for(UNKNOWN_SERVER_ERROR, f"Group {name}", "The broker's answer leaves it out.")

    while len(found) < len(wanted):
        await cluster.retry(describe_rest)
    return {name: found[name] for name in wanted}


async def _describe_on(cluster: ClusterLinks, node_id: int, names: list[str], found: dict[str, GroupDescription]) -> None:
    """Describe the groups of one coordinator, with one request for each kind of groups until all groups are found."""
    missing: dict[str, GroupDescription] = {}
    for request, read in asked.DESCRIPTIONS:
        rest = [name for name in names if name not in found]
        if not rest:
            return
        try:
            answer = await cluster.request(node_id, request(rest))
        except NotSupported:
            if not missing:  # no broker lacks the request for classic groups but those before groups
                raise
            continue
        for error_code, message, group in read(answer):
            if error_code in (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
                continue
            raise_for(error_code, f"Group {group.group_id}", message)
            (missing if group.state == DEAD else found)[group.group_id] = group._replace(coordinator_id=node_id)
    found |= {name: group for name, group in missing.items() if name not in found}


async def fetch_offsets(cluster: ClusterLinks, group_ids: Iterable[str], *, require_stable: bool) -> dict[str, Offsets]:
    """Return the committed offsets of groups, by id. Raises `KafkaError`."""
    wanted = list(dict.fromkeys(group_ids))
    found: dict[str, Offsets] = {}

    async def fetch_rest() -> None:
        some = [name for name in wanted if name not in found][:AT_A_TIME]
        await cluster.refresh([])
        by_node = await find_coordinators_of(cluster, some)
        places = [(node_id, name) for node_id, names in by_node.items() for name in names]
        asks = (_fetch_from(cluster, node_id, name, require_stable=require_stable) for node_id, name in places)
        for (_, name), offsets in zip(places, await asyncio.gather(*asks), strict=True):
            found[name] = offsets

    while len(found) < len(wanted):
        await cluster.retry(fetch_rest)
    return {name: found[name] for name in wanted}


async def _fetch_from(cluster: ClusterLinks, node_id: int, group_id: str, *, require_stable: bool) -> Offsets:
    try:
        request = fetch_offsets_request(group_id, None, require_stable=require_stable)
        answer: OffsetFetchResponse = await cluster.request(node_id, request)
    except NotSupported:  # before Kafka 0.10.2, a request names all its partitions
        await cluster.refresh(None)
        topics = cluster.metadata.topics.values()
        everything = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
        answer = await cluster.request(node_id, fetch_offsets_request(group_id, everything, require_stable=require_stable))
    raise_for(answer.error_code, f"Group {group_id}")
    found: Offsets = {}
    for where, code, offset in read_fetch_offsets(answer):
        raise_for(code, f"Committed offset of {where.topic}-{where.partition}")
        if offset.offset != NOTHING_COMMITTED:
            found[where] = offset
    return found


async def share_offsets(cluster: ClusterLinks, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, ShareOffset]]:
    """Return the positions of share groups, by id. Raises `KafkaError`."""
    wanted = list(dict.fromkeys(group_ids))

    async def attempt() -> dict[str, dict[TopicPartition, ShareOffset]]:
        await cluster.refresh([])
        found: dict[str, dict[TopicPartition, ShareOffset]] = {}
        for node_id, names in (await find_coordinators_of(cluster, wanted)).items():
            found |= asked.read_share_offsets(await cluster.request(node_id, asked.share_offsets_request(names)))
        return found

    return await cluster.retry(attempt) if wanted else {}


async def remove_members(
    cluster: ClusterLinks, group_id: str, names: Sequence[str] | None, reason: str | None
) -> list[GroupMember]:
    """Remove members from a group by member ids or instance ids (None: all of them). Return the removed members."""
    group = (await describe_groups(cluster, [group_id]))[group_id]
    if group.group_type not in (CLASSIC, CONSUMER):
        raise NotSupported(f"Group {group_id} is a {group.group_type} group: Kafka removes no members from it; stop them.")
    removed = group.members if names is None else [_find_member(group, name) for name in dict.fromkeys(names)]
    classic = [member for member in removed if group.group_type == CLASSIC or member.is_classic]
    for member in removed:
        if member not in classic:
            await _leave_by_heartbeat(cluster, group, member)
    if classic:
        link = await cluster.link(group.coordinator_id)
        together = link.version(LEAVE_GROUP) >= SEVERAL_FROM_LEAVE_GROUP
        for some in [classic] if together else [[member] for member in classic]:
            request = asked.leave_request(group_id, some, reason or REASON)
            asked.check_left(await cluster.request(group.coordinator_id, request), group_id)
    return list(removed)


def _find_member(group: GroupDescription, name: str) -> GroupMember:
    """Return the member with this member id, or this instance id. Raises `BrokerError`."""
    matches: tuple[Callable[[GroupMember], str | None], ...] = (lambda one: one.member_id, lambda one: one.group_instance_id)
    for identity in matches:
        for member in group.members:
            if identity(member) == name:
                return member
    raise BrokerError(UNKNOWN_MEMBER_ID, f"Member {name} of group {group.group_id}")


async def _leave_by_heartbeat(cluster: ClusterLinks, group: GroupDescription, member: GroupMember) -> None:
    request = asked.heartbeat_of_leaving(group.group_id, member)
    answer: ConsumerGroupHeartbeatResponse = await cluster.request(group.coordinator_id, request)
    raise_for(answer.error_code, f"Member {member.member_id} of group {group.group_id}", answer.error_message)

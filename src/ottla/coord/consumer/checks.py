"""Checks of a ConsumerGroupHeartbeat: the request itself, the member's epoch, and its instance id."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.coord.consumer.draft import Refusal
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
)
from ottla.wire.schema import Uuid

OWN_MEMBER_ID_FROM = 1
"""The first version in which clients choose their member id (KIP-1082)."""

Owned = Mapping[Uuid, Collection[int]]
"""The partitions that a member reports as owned, by topic id."""

_BLANKS = "".join(map(chr, range(33)))


def request_error(body: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> Refusal | None:
    """Return the refusal of an invalid request, whatever the state of its group; None if it is valid."""
    epoch = body.member_epoch
    needs_id = version >= OWN_MEMBER_ID_FROM or epoch > 0 or epoch == LEAVING_EPOCH
    for name, text in (
        ("MemberId", body.member_id if needs_id else None),
        ("GroupId", body.group_id),
        ("InstanceId", body.instance_id),
        ("RackId", body.rack_id),
    ):
        if text is not None and not text.strip(_BLANKS):
            return Refusal(INVALID_REQUEST, f"{name} can't be empty: set it, or use null where that is allowed.")
    return _epoch_error(body) or _assignor_error(body.server_assignor, assignors)


def _epoch_error(body: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    epoch = body.member_epoch
    if epoch == JOINING_EPOCH:
        return _joining_error(body)
    if epoch == STATIC_LEAVING_EPOCH and body.instance_id is None:
        return Refusal(INVALID_REQUEST, "InstanceId can't be null: only a static member leaves with MemberEpoch -2.")
    if epoch < STATIC_LEAVING_EPOCH:
        return Refusal(
            INVALID_REQUEST, f"MemberEpoch is invalid: {epoch} is neither the member's own, nor 0 to join, nor -1 or -2 to leave."
        )
    return None


def _joining_error(body: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    if body.rebalance_timeout_ms == -1:
        return Refusal(INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request: set it when joining.")
    if body.topic_partitions is None or body.topic_partitions:
        return Refusal(INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining: send an empty list.")
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        return Refusal(
            INVALID_REQUEST, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining: set one."
        )
    return None


def _assignor_error(name: str | None, assignors: Collection[str]) -> Refusal | None:
    if name is None or name in assignors:
        return None
    return Refusal(UNSUPPORTED_ASSIGNOR, f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.")


def room_error(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> Refusal | None:
    """Return a refusal if the group is full. Present members, and static members that join again, are never refused."""
    if len(group.members) < max_size or member_id in group.members or instance_id in group.static:
        return None
    return Refusal(GROUP_MAX_SIZE_REACHED, f"The group has {len(group.members)} members, which is its maximum.")


def epoch_error(member: ConsumerMember, epoch: int, owned: Owned | None) -> Refusal | None:
    """Return a refusal unless a member sends its present epoch, or 0 to join again.

    A member that missed the last reply can send its previous epoch, but may then own only partitions that are assigned to it.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return None
    if epoch < member.epoch and epoch == member.previous_epoch and owned is not None and _has_all(member, owned):
        return None
    kind = "greater" if epoch > member.epoch else "smaller"
    message = (
        f"The consumer group member has a {kind} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}): revoke all partitions and rejoin."
    )
    return Refusal(FENCED_MEMBER_EPOCH, message)


def _has_all(member: ConsumerMember, owned: Owned) -> bool:
    return all(partition in member.assigned.get(topic_id, {}) for topic_id, partitions in owned.items() for partition in partitions)


def unknown_member(group: ConsumerGroup, member_id: str) -> Refusal:
    return Refusal(UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}: join first.")


def static_error(group: ConsumerGroup, member_id: str, instance_id: str) -> Refusal | None:
    """Return a refusal unless the group's static member with this instance id has this member id."""
    holder = group.static.get(instance_id)
    if holder is None:
        return Refusal(UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown: join first.")
    if holder != member_id:
        return Refusal(
            FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}, which is newer.",
        )
    return None


def release_error(holder: ConsumerMember, member_id: str) -> Refusal | None:
    """Return a refusal unless the static member has left temporarily (-2), and can be replaced."""
    if holder.epoch == STATIC_LEAVING_EPOCH:
        return None
    reason = f"because the instance id is owned by {holder.member_id} member, which has not left."
    message = f"Static member {member_id} with instance id {holder.instance_id} cannot join the group {reason}"
    return Refusal(UNRELEASED_INSTANCE_ID, message)

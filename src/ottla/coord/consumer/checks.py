"""Checks of a ConsumerGroupHeartbeat: the request itself, the member's epoch, and its instance id."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.member_checks import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Refusal,
    blank_error,
    invalid,
    static_leave_error,
    wrong_epoch,
)
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, UNSUPPORTED_ASSIGNOR
from ottla.wire.schema import Uuid

OWN_MEMBER_ID_FROM = 1
"""The first version in which clients choose their member id (KIP-1082)."""

Owned = Mapping[Uuid, Collection[int]]
"""The partitions that a member reports as owned, by topic id."""


def request_error(body: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> Refusal | None:
    """Return the refusal of an invalid request, whatever the state of its group; None if it is valid."""
    epoch = body.member_epoch
    needs_id = version >= OWN_MEMBER_ID_FROM or epoch > 0 or epoch == LEAVING_EPOCH
    refused = blank_error(
        MemberId=body.member_id if needs_id else None, GroupId=body.group_id, InstanceId=body.instance_id, RackId=body.rack_id
    )
    if refused is not None:
        return refused
    return _epoch_error(body) or _assignor_error(body.server_assignor, assignors)


def _epoch_error(body: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    epoch = body.member_epoch
    if epoch == JOINING_EPOCH:
        return _joining_error(body)
    if epoch < STATIC_LEAVING_EPOCH:
        return invalid(f"MemberEpoch is invalid: {epoch} is neither the member's own, nor 0 to join, nor -1 or -2 to leave.")
    return static_leave_error(epoch, body.instance_id)


def _joining_error(body: ConsumerGroupHeartbeatRequest) -> Refusal | None:
    if body.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request: set it when joining.")
    if body.topic_partitions is None or body.topic_partitions:
        return invalid("TopicPartitions must be empty when (re-)joining: send an empty list.")
    if body.subscribed_topic_names is None and body.subscribed_topic_regex is None:
        return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining: set one.")
    return None


def _assignor_error(name: str | None, assignors: Collection[str]) -> Refusal | None:
    if name is None or name in assignors:
        return None
    return Refusal(UNSUPPORTED_ASSIGNOR, f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.")


def group_size_error(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> Refusal | None:
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
    return wrong_epoch("consumer", epoch, member.epoch, "revoke all partitions")


def _has_all(member: ConsumerMember, owned: Owned) -> bool:
    return all(partition in member.assigned.get(topic_id, {}) for topic_id, partitions in owned.items() for partition in partitions)

"""ShareGroupHeartbeat (KIP-932), by which a member joins, stays alive, changes its subscription, gets its assignment and leaves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.names import weight_of
from ottla.coord.member_checks import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    Refusal,
    blank_error,
    invalid,
    memory_error,
    unknown_member,
    wrong_epoch,
)
from ottla.coord.runtime.machine import Input
from ottla.coord.share.draft import HEARTBEAT_INTERVAL, ShareDraft
from ottla.coord.share.events import ShareTopicsRefreshed
from ottla.coord.share.initialization import initialize_subscribed
from ottla.coord.share.member import ShareMember
from ottla.coord.share.records import ShareCurrentForgotten, ShareEpochStored, ShareMemberForgotten, ShareTargetForgotten
from ottla.coord.share.target import ShareTarget, find_target, lacks_members
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED

log = logging.getLogger("ottla.coord")

Beat = Input[ShareGroupHeartbeatRequest]
Assignment = ConsumerGroupHeartbeatResponse.Assignment
TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


def refusal(refused: Refusal) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message)


def request_error(body: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Return the refusal of an invalid request, whatever the state of its group; None if it is valid."""
    refused = blank_error(MemberId=body.member_id, GroupId=body.group_id, RackId=body.rack_id)
    if refused is not None:
        return refused
    if body.member_epoch == JOINING_EPOCH and not body.subscribed_topic_names:
        return invalid("SubscribedTopicNames must be set in first request: name at least one topic.")
    if body.member_epoch < LEAVING_EPOCH:
        return invalid(f"MemberEpoch is invalid: {body.member_epoch} is neither the member's own, nor 0 to join, nor -1 to leave.")
    return None


def heartbeat(draft: ShareDraft, asked: Beat) -> Refusal | None:
    """Decide the heartbeat of a present or joining member. The draft's group can be new."""
    body, group = asked.body, draft.group
    member = _member(draft, body)
    if isinstance(member, Refusal):
        return member
    updated = _update(draft, member, asked)
    if updated is not member:
        refused = _memory_growth_error(draft, member, updated)
        if refused is not None:
            return refused
        draft.store(updated.metadata_record(group.group_id))
    epoch, bumped = _evaluate(draft, member, updated)
    reconciled = _reconcile(draft, updated, find_target(draft, epoch, updated), changed=bumped)
    if reconciled is not updated:
        draft.store(reconciled.current_record(group.group_id))
    draft.expect(reconciled.member_id)
    draft.answer(_response(draft, body, member, reconciled))
    initialize_subscribed(draft, epoch, group.subscriptions_with(member, updated.topics))
    return None


def _member(draft: ShareDraft, body: ShareGroupHeartbeatRequest) -> ShareMember | Refusal:
    """Return the member of the request, present or new, or a refusal."""
    members, most = draft.group.members, draft.context.settings.group_share_max_size
    member = members.get(body.member_id)
    if member is None and len(members) >= most:
        return Refusal(GROUP_MAX_SIZE_REACHED, f"The share group has {len(members)} members; group.share.max.size is {most}.")
    if member is None:
        return ShareMember(body.member_id) if body.member_epoch == JOINING_EPOCH else unknown_member(draft.group_id, body.member_id)
    return _epoch_error(member, body.member_epoch) or member


def _epoch_error(member: ShareMember, epoch: int) -> Refusal | None:
    """Return a refusal unless a member sends its present or previous epoch, or 0 to join again."""
    if epoch in (JOINING_EPOCH, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return None
    return wrong_epoch("share", epoch, member.epoch, "abandon all partitions")


def _update(draft: ShareDraft, member: ShareMember, asked: Beat) -> ShareMember:
    """Return the member with the values in this request. Return the same object if nothing changes."""
    body = asked.body
    names = None if body.subscribed_topic_names is None else draft.context.memory.names.share(body.subscribed_topic_names)
    updated = replace(
        member,
        rack_id=member.rack_id if body.rack_id is None else body.rack_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        topics=member.topics if names is None or names == member.topics else names,
    )
    is_known = member.member_id in draft.group.members
    return member if is_known and updated == member else updated


def _memory_growth_error(draft: ShareDraft, member: ShareMember, updated: ShareMember) -> Refusal | None:
    """Return a refusal if a member, or its larger subscription, would exceed the memory limit."""
    before = member.weight + weight_of(member.topics) if member.member_id in draft.group.members else 0
    growth = updated.weight + weight_of(updated.topics) - before
    return memory_error(draft, growth)


def _evaluate(draft: ShareDraft, member: ShareMember, updated: ShareMember) -> tuple[int, bool]:
    """Return the group's epoch after `member` becomes `updated`, and whether it was raised.

    It is raised if subscriptions, their topics or the initialized partitions have changed.
    """
    group = draft.group
    bump = member.topics != updated.topics or (group.assignment_epoch >= group.epoch and lacks_members(draft))
    metadata_hash = group.metadata_hash
    if bump or group.stale:
        metadata_hash = draft.context.topics.hash_of(*group.subscriptions_with(member, updated.topics))
    if group.stale:
        draft.store(ShareTopicsRefreshed(group.group_id))
    if bump or metadata_hash != group.metadata_hash:
        return _bump(draft, metadata_hash), True
    return group.epoch, False


def _bump(draft: ShareDraft, metadata_hash: int) -> int:
    epoch = draft.group.epoch + 1
    log.info("group %s: epoch %d", draft.group_id, epoch, extra={"cause": "group epoch", "most": 3})
    draft.store(ShareEpochStored(draft.group_id, epoch, metadata_hash))
    return epoch


def _reconcile(draft: ShareDraft, member: ShareMember, target: ShareTarget, *, changed: bool) -> ShareMember:
    """Return the member with its target's epoch and partitions, without topics to which it does not subscribe."""
    if member.epoch == target.epoch and not changed:
        return member
    assigned = _drop_unsubscribed(draft, member, target.partitions)
    assigned = member.assigned if assigned == member.assigned else assigned
    if member.epoch != target.epoch:
        return replace(member, epoch=target.epoch, previous_epoch=member.epoch, assigned=assigned)
    return member if assigned is member.assigned else replace(member, assigned=assigned)


def _drop_unsubscribed(draft: ShareDraft, member: ShareMember, partitions: Partitions) -> Partitions:
    """Return the partitions without those of topics to which the member does not subscribe."""

    def subscribes(topic_id: bytes) -> bool:
        topic = draft.context.topics.with_id(topic_id)
        return topic is not None and topic.name in member.topics

    if all(map(subscribes, partitions)):
        return partitions
    return {topic_id: numbers for topic_id, numbers in partitions.items() if subscribes(topic_id)}


def _response(
    draft: ShareDraft, body: ShareGroupHeartbeatRequest, before: ShareMember, reconciled: ShareMember
) -> ShareGroupHeartbeatResponse:
    """Return the response. It has the assignment if this changes, after a request with a subscription, or with the previous epoch.

    A member that sends its previous epoch missed the last response, which perhaps had the assignment.
    """
    response = ShareGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=draft.group_setting(HEARTBEAT_INTERVAL, draft.context.settings.group_share_heartbeat_interval_ms),
    )
    has_missed = body.member_epoch < before.epoch
    if body.subscribed_topic_names is not None or has_missed or before.assigned != reconciled.assigned:
        response.assignment = _shown(reconciled.assigned)
    return response


def _shown(assigned: Mapping[bytes, frozenset[int]]) -> Assignment:
    held = [TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in assigned.items()]
    return Assignment(topic_partitions=held)


def leave(draft: ShareDraft, body: ShareGroupHeartbeatRequest) -> Refusal | None:
    """Decide a heartbeat by which a member leaves."""
    member = draft.group.members.get(body.member_id)
    if member is None:
        return unknown_member(draft.group_id, body.member_id)
    fence(draft, member, "left")
    draft.answer(ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=LEAVING_EPOCH))
    return None


def fence(draft: ShareDraft, member: ShareMember, reason: str) -> None:
    """Remove a member, and raise the group's epoch."""
    group_id, member_id = draft.group_id, member.member_id
    log.info("group %s: %s %s", group_id, member_id, reason, extra={"cause": "group leave", "most": 3})
    for tombstone in (ShareCurrentForgotten, ShareTargetForgotten, ShareMemberForgotten):
        draft.store(tombstone(group_id, member_id))
    draft.forget(member_id)
    _bump(draft, draft.context.topics.hash_of(*draft.group.subscriptions_with(member, None)))

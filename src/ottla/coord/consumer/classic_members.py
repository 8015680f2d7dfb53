"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members of a consumer group that use the classic protocol.

A group has members of both protocols while it migrates between them. Classic members reach their target assignments by the rules
of the consumer protocol. The reply to a heartbeat requests a rejoin. A join reports revoked partitions and is answered at once.
SyncGroup returns the assignment.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.coord.classic.join import MEMBER_ID_REQUIRED_FROM, protocols_of, rebalance_timeout_ms
from ottla.coord.classic.leave import MANY_MEMBERS_FROM
from ottla.coord.classic.rebalance import join_error
from ottla.coord.consumer.checks import group_size_error
from ottla.coord.consumer.draft import ConsumerDraft, member_record
from ottla.coord.consumer.embedded_protocol import PROTOCOL_TYPE, EmbeddedSubscription, read_subscription, write_assignment
from ottla.coord.consumer.events import RejoinAwaited, RejoinSeen
from ottla.coord.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coord.consumer.heartbeat import memory_growth_error, reconcile_member, replace_member
from ottla.coord.consumer.leave import fence
from ottla.coord.consumer.member import Classic, ConsumerMember
from ottla.coord.consumer.migrate import can_downgrade, downgrade_with, may_be_classic
from ottla.coord.consumer.reconcile import Target
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.subscription import Outlook, evaluate
from ottla.coord.consumer.target import find_target
from ottla.coord.member_checks import Refusal, static_error, unknown_member
from ottla.coord.outcome import MemberSyncGroupKey, RejoinKey
from ottla.coord.runtime.machine import Input
from ottla.wire import Malformed
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.errors import (
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

Identity = LeaveGroupRequest.MemberIdentity


def join(draft: ConsumerDraft, ask: Input[JoinGroupRequest]) -> Refusal | None:
    """Decide a JoinGroup to a consumer group that has members. The reply comes at once, because no join phase exists."""
    body = ask.body
    refused = _join_error(draft, ask)
    if refused is not None:
        return refused
    if not body.member_id and body.group_instance_id is None and ask.version >= MEMBER_ID_REQUIRED_FROM:
        draft.answer(join_error(MEMBER_ID_REQUIRED, draft.context.new_id()))
        return None
    try:
        subscription = read_subscription(bytes(body.protocols[0].metadata), draft.context.topics)
    except Malformed as malformed:
        return Refusal(INCONSISTENT_GROUP_PROTOCOL, f"The subscription cannot be decoded: {malformed}")
    member = _joining_member(draft, body)
    if isinstance(member, Refusal):
        return member
    if subscription.owned and member.member_id not in draft.group.members and draft.replaced is None:
        # The member was removed without noticing. Its partitions can belong to other members, so it must revoke them first.
        return Refusal(UNKNOWN_MEMBER_ID, "The member owns partitions, but is unknown to the coordinator: revoke them and rejoin.")
    updated = _update_member(member, ask, subscription)
    refused = memory_growth_error(draft, member, updated)
    if refused is not None:
        return refused
    if updated != member:
        draft.store(member_record(draft.group_id, updated))
    outlook = evaluate(draft, member, updated)
    if isinstance(outlook, Refusal):
        return outlook
    return _reconcile(draft, member, updated, outlook, subscription)


def _join_error(draft: ConsumerDraft, ask: Input[JoinGroupRequest]) -> Refusal | None:
    body, most = ask.body, draft.context.settings.group_consumer_max_size
    refused = group_size_error(draft.group, body.member_id, body.group_instance_id, most)
    if refused is not None:
        return refused
    if not _supports(draft.group, body):
        return Refusal(INCONSISTENT_GROUP_PROTOCOL, "The other members of the classic protocol support none of these protocols.")
    return None


def _supports(group: ConsumerGroup, body: JoinGroupRequest) -> bool:
    known = (group.protocols.get(protocol.name, 0) == group.classic_count for protocol in body.protocols)
    return body.protocol_type == PROTOCOL_TYPE and any(known)


def _joining_member(draft: ConsumerDraft, body: JoinGroupRequest) -> ConsumerMember | Refusal:
    """Return the joining member: a present one, or a new one with the id in the request or, without one, a new id.

    A static member without a member id replaces the present member with its instance id. Return a refusal for an invalid id.
    """
    group, instance_id = draft.group, body.group_instance_id
    if instance_id is None:
        member_id = body.member_id or draft.context.new_id()
        return group.members.get(member_id) or ConsumerMember(member_id)
    if body.member_id:
        return static_error(group.static, body.member_id, instance_id) or group.members[body.member_id]
    holder = group.static_member(instance_id)
    member_id = f"{instance_id}-{draft.context.new_id()}"
    return ConsumerMember(member_id) if holder is None else replace_member(draft, holder, member_id)


def _update_member(member: ConsumerMember, ask: Input[JoinGroupRequest], subscription: EmbeddedSubscription) -> ConsumerMember:
    timeout_ms = rebalance_timeout_ms(ask)
    return replace(
        member,
        instance_id=ask.body.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=ask.client_id,
        client_host=ask.client_host,
        topics=subscription.topics,
        pattern="",
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic=Classic(ask.body.session_timeout_ms, protocols_of(ask.body)),
    )


def _reconcile(
    draft: ConsumerDraft,
    member: ConsumerMember,
    updated: ConsumerMember,
    outlook: Outlook,
    subscription: EmbeddedSubscription,
) -> Refusal | None:
    """Move the joining member toward its target assignment. If only classic members are left, make the group a classic group."""
    group = draft.group
    holder = None if draft.replaced is None else group.members[draft.replaced]
    if holder is not None and holder.classic is None and _leaves_only_classic(draft, holder):
        settled = group.assignment_epoch >= outlook.epoch
        target = Target(group.assignment_epoch, group.targets.get(holder.member_id, NO_TARGET))
        reconciled = reconcile_member(draft, outlook, updated, target, subscription.owned) if settled else updated
        if isinstance(reconciled, Refusal):
            return reconciled
        downgrade_with(draft, reconciled, settled=settled)
        if not settled:
            return None  # the reply comes when all members have joined
    else:
        reconciled = reconcile_member(draft, outlook, updated, find_target(draft, outlook, member, updated), subscription.owned)
        if isinstance(reconciled, Refusal):
            return reconciled
        draft.expect(reconciled)
        draft.after(MemberSyncGroupKey(group.group_id, reconciled.member_id), reconciled.rebalance_timeout_ms)
        _end_rejoin_wait(draft, reconciled.member_id)
    draft.answer(_join_response(reconciled))
    return None


def _leaves_only_classic(draft: ConsumerDraft, holder: ConsumerMember) -> bool:
    """Return whether the group can become a classic group when the joining member replaces `holder`."""
    alone = len(draft.group.members) == 1
    return may_be_classic(draft, 1) if alone else can_downgrade(draft, [holder])


def _end_rejoin_wait(draft: ConsumerDraft, member_id: str) -> None:
    if member_id in draft.group.rejoining:
        draft.store(RejoinSeen(draft.group_id, member_id))
        draft.cancel(RejoinKey(draft.group_id, member_id))


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    """Return the reply to a join. It names no leader, because the coordinator computes the assignment."""
    return JoinGroupResponse(
        member_id=member.member_id, generation_id=member.epoch, protocol_type=PROTOCOL_TYPE, protocol_name=_protocol(member)
    )


def _protocol(member: ConsumerMember) -> str:
    assert member.classic is not None
    return member.classic.protocols[0][0]


def sync_group(draft: ConsumerDraft, ask: Input[SyncGroupRequest]) -> Refusal | None:
    """Decide a SyncGroup: reply with the member's assignment, unless the member must rejoin for a newer target."""
    body = ask.body
    member = _find_member(draft, body.member_id, body.group_instance_id, body.generation_id)
    if isinstance(member, Refusal):
        return member
    if _differs(body.protocol_type, PROTOCOL_TYPE) or _differs(body.protocol_name, _protocol(member)):
        return Refusal(INCONSISTENT_GROUP_PROTOCOL, "The member joined with another protocol.")
    if draft.group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_rejoin(draft, member)
        draft.answer(SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
        return None
    assert member.classic is not None
    draft.cancel(MemberSyncGroupKey(draft.group_id, member.member_id))
    draft.expect(member)
    assignment = write_assignment(member.assigned, draft.context.topics, member.classic.protocols[0][1])
    draft.answer(SyncGroupResponse(protocol_type=body.protocol_type, protocol_name=body.protocol_name, assignment=assignment))
    return None


def _differs(said: str | None, known: str) -> bool:
    return said is not None and said != known


def _find_member(draft: ConsumerDraft, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember | Refusal:
    """Return the member of a request that uses the classic protocol, or a refusal if it or its generation is unknown."""
    group = draft.group
    if instance_id is not None:
        refused = static_error(group.static, member_id, instance_id)
        if refused is not None:
            return refused
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return unknown_member(group.group_id, member_id)
    if member.epoch != generation:
        return Refusal(ILLEGAL_GENERATION, f"The member's generation is {member.epoch}, not {generation}.")
    return member


def heartbeat(draft: ConsumerDraft, ask: Input[HeartbeatRequest]) -> Refusal | None:
    """Decide a Heartbeat. The reply requests a rejoin if the member must revoke partitions or can get new ones."""
    body = ask.body
    member = _find_member(draft, body.member_id, body.group_instance_id, body.generation_id)
    if isinstance(member, Refusal):
        return member
    draft.expect(member)
    must_join = _must_join(draft.group, member)
    if must_join:
        _await_rejoin(draft, member)
    draft.answer(HeartbeatResponse(error_code=REBALANCE_IN_PROGRESS if must_join else NONE))
    return None


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether another member still has a partition of this member's target."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.owner(topic_id, partition) is not None
        for topic_id, partitions in group.targets.get(member.member_id, NO_TARGET).items()
        for partition in partitions
    )


def _await_rejoin(draft: ConsumerDraft, member: ConsumerMember) -> None:
    """Set the deadline for a member to send JoinGroup: its rebalance timeout. Keep the deadline if there is one already."""
    if member.member_id not in draft.group.rejoining:
        draft.store(RejoinAwaited(draft.group_id, member.member_id))
        draft.after(RejoinKey(draft.group_id, member.member_id), member.rebalance_timeout_ms)


def leave(draft: ConsumerDraft, ask: Input[LeaveGroupRequest]) -> None:
    """Decide a LeaveGroup, which can remove members of both protocols. Each member gets its own error code."""
    leaving = ask.body.members if ask.version >= MANY_MEMBERS_FROM else [Identity(member_id=ask.body.member_id)]
    going: dict[str, ConsumerMember] = {}
    results = []
    for identity in leaving:
        member = _find_leaving(draft.group, identity)
        error_code = member.error_code if isinstance(member, Refusal) else NONE
        if isinstance(member, ConsumerMember):
            going[member.member_id] = member
        results.append(
            LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
            )
        )
    if ask.version >= MANY_MEMBERS_FROM:
        draft.answer(LeaveGroupResponse(members=results))
    else:
        draft.answer(LeaveGroupResponse(error_code=results[0].error_code))
    fence(draft, list(going.values()), f"left; client reason: {leaving[0].reason or 'not provided'}" if leaving else "left")


def _find_leaving(group: ConsumerGroup, identity: Identity) -> ConsumerMember | Refusal:
    """Return the member that leaves, or a refusal. An operator removes a static member by its instance id, without a member id."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.members.get(identity.member_id) or unknown_member(group.group_id, identity.member_id)
    if not identity.member_id:
        held = group.static_member(instance_id)
        return held or Refusal(UNKNOWN_MEMBER_ID, f"Group {group.group_id} has no member with the instance id {instance_id}.")
    return static_error(group.static, identity.member_id, instance_id) or group.members[identity.member_id]

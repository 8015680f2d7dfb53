"""ConsumerGroupHeartbeat (KIP-848), by which a member joins, stays alive, changes its subscription, and gets its assignment."""

from __future__ import annotations

from dataclasses import replace

from ottla.coord.consumer.checks import Owned, epoch_error, group_size_error
from ottla.coord.consumer.draft import HEARTBEAT_INTERVAL, ConsumerDraft, current_record, member_record
from ottla.coord.consumer.events import RejoinSeen
from ottla.coord.consumer.member import ConsumerMember, Epochs
from ottla.coord.consumer.names import SharedNames, weight_of
from ottla.coord.consumer.reconcile import Surroundings, Target, must_begin_anew, reconcile
from ottla.coord.consumer.records import CurrentForgotten, MemberForgotten, TargetForgotten, TargetStored
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.subscription import Outlook, evaluate
from ottla.coord.consumer.target import begin, find_target, is_long
from ottla.coord.member_checks import JOINING_EPOCH, Refusal, memory_error, release_error, static_error, unknown_member
from ottla.coord.outcome import AwaitedTarget, MemberSyncGroupKey, RebalanceKey, RejoinKey
from ottla.coord.runtime.machine import Input
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.errors import FENCED_MEMBER_EPOCH
from ottla.wire.schema import Uuid

Ask = Input[ConsumerGroupHeartbeatRequest]
Assignment = ConsumerGroupHeartbeatResponse.Assignment
TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


def refusal(refused: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refused.error_code, error_message=refused.message)


def heartbeat(draft: ConsumerDraft, ask: Ask) -> Refusal | None:
    """Decide the heartbeat of a present or joining member. The draft's group can be new."""
    body = ask.body
    refused = group_size_error(draft.group, body.member_id, body.instance_id, draft.context.settings.group_consumer_max_size)
    if refused is not None:
        return refused
    owned = owned_of(body)
    member = _member(draft, body, owned)
    if isinstance(member, Refusal):
        return member
    updated = update_member(member, ask, draft.context.memory.names)
    if updated is not member and (refused := memory_growth_error(draft, member, updated)) is not None:
        return refused
    if member.classic is not None:
        _end_classic(draft, member)
    if updated is not member:
        draft.store(member_record(draft.group_id, updated))
    outlook = evaluate(draft, member, updated)
    if isinstance(outlook, Refusal):
        return outlook
    if is_long(draft, outlook, updated):
        draft.expect(updated)
        begin(draft, outlook, member, updated, AwaitedTarget(ask, updated.member_id, member.assigned, outlook.changed))
        return None
    reconciled = reconcile_member(draft, outlook, updated, find_target(draft, outlook, member, updated), owned)
    if isinstance(reconciled, Refusal):
        return reconciled
    draft.expect(reconciled)
    draft.answer(response_to(draft, body, member.assigned, reconciled))
    return None


def owned_of(body: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """Return the partitions that a member reports as owned; None if the request omits them."""
    return None if body.topic_partitions is None else {bytes(held.topic_id): held.partitions for held in body.topic_partitions}


def _member(draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest, owned: Owned | None) -> ConsumerMember | Refusal:
    """Return the member of the request, present or new, or a refusal."""
    if body.instance_id is not None:
        return _static_member(draft, body, body.instance_id, owned)
    member_id = body.member_id or draft.context.new_id()
    member = draft.group.members.get(member_id)
    if member is None:
        return ConsumerMember(member_id) if body.member_epoch == JOINING_EPOCH else unknown_member(draft.group_id, member_id)
    return epoch_error(member, body.member_epoch, owned) or member


def _static_member(
    draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest, instance_id: str, owned: Owned | None
) -> ConsumerMember | Refusal:
    """Return a static member by its instance id. A joining member replaces the member that left with this id (KIP-345)."""
    member_id = body.member_id or draft.context.new_id()
    holder = draft.group.static_member(instance_id)
    if body.member_epoch != JOINING_EPOCH:
        refused = static_error(draft.group.static, member_id, instance_id)
        return refused or epoch_error(draft.group.members[member_id], body.member_epoch, owned) or draft.group.members[member_id]
    if holder is None:
        return draft.group.members.get(member_id) or ConsumerMember(member_id)
    if holder.classic is None:
        refused = release_error(holder, member_id)
        if refused is not None:
            return refused
    return replace_member(draft, holder, member_id)


def replace_member(draft: ConsumerDraft, holder: ConsumerMember, member_id: str) -> ConsumerMember:
    """Replace a static member by one with a new member id, which takes over its target and partitions. Return the new member."""
    newcomer = replace(holder, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    remove_member(draft, holder)
    draft.store(member_record(draft.group_id, newcomer))
    draft.store(TargetStored(draft.group_id, member_id, draft.group.targets.get(holder.member_id, {})))
    draft.store(current_record(draft.group_id, newcomer))
    draft.replaced = holder.member_id
    return newcomer


def remove_member(draft: ConsumerDraft, member: ConsumerMember) -> None:
    """Remove a member, and cancel its deadlines."""
    draft.store(CurrentForgotten(draft.group_id, member.member_id))
    draft.store(TargetForgotten(draft.group_id, member.member_id))
    draft.store(MemberForgotten(draft.group_id, member.member_id))
    draft.forget(member)


def update_member(member: ConsumerMember, ask: Ask, names: SharedNames) -> ConsumerMember:
    """Return the member updated with the values in this request. Return the same object if nothing changes."""
    body = ask.body
    says: dict[str, object] = {
        "instance_id": body.instance_id,
        "rack_id": body.rack_id,
        "client_id": ask.client_id,
        "client_host": ask.client_host,
        "topics": None if body.subscribed_topic_names is None else names.share(body.subscribed_topic_names),
        "pattern": body.subscribed_topic_regex,
        "rebalance_timeout_ms": None if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        "assignor": body.server_assignor,
    }
    news = {name: value for name, value in says.items() if value is not None and _differs(value, getattr(member, name))}
    if member.classic is not None:
        news["classic"] = None
    return replace(member, **news) if news or member.classic is not None else member  # type: ignore[arg-type]  # types as in the fields


def _differs(value: object, known: object) -> bool:
    return value is not known and value != known  # equal objects need no comparison of thousands of names


def memory_growth_error(draft: ConsumerDraft, member: ConsumerMember, updated: ConsumerMember) -> Refusal | None:
    """Return a refusal if a member, or its larger subscription, would exceed the memory limit."""
    is_new = member.member_id not in draft.group.members and draft.replaced is None
    growth = updated.weight + weight_of(updated.topics) - (0 if is_new else member.weight + weight_of(member.topics))
    return memory_error(draft, growth)


def _end_classic(draft: ConsumerDraft, member: ConsumerMember) -> None:
    """Cancel the rejoin and SyncGroup deadlines of a classic member that has switched to the consumer protocol."""
    draft.cancel(RejoinKey(draft.group_id, member.member_id))
    draft.cancel(MemberSyncGroupKey(draft.group_id, member.member_id))
    if member.member_id in draft.group.rejoining:
        draft.store(RejoinSeen(draft.group_id, member.member_id))


def reconcile_member(
    draft: ConsumerDraft, outlook: Outlook, member: ConsumerMember, target: Target, owned: Owned | None
) -> ConsumerMember | Refusal:
    """Return a member after the largest possible step toward its target assignment. Set a timeout if it must revoke partitions."""
    if not outlook.changed and member.is_reconciled_to(target.epoch):
        return member
    wanted = outlook.topics_of(member)

    def subscribes(topic_id: Uuid) -> bool:
        topic = draft.context.topics.with_id(topic_id)
        return topic is not None and topic.name in wanted

    around = Surroundings(draft.group.taken_partitions, subscribes, owned, outlook.changed)
    if must_begin_anew(member, around):
        return Refusal(FENCED_MEMBER_EPOCH, "The member's state is unknown to the coordinator: revoke all partitions and rejoin.")
    reconciled = reconcile(member, target, around)
    if reconciled == member:
        return member
    draft.store(current_record(draft.group_id, reconciled))
    if reconciled.classic is None:
        _time_revocation(draft, member, reconciled)
    return reconciled


def _time_revocation(draft: ConsumerDraft, member: ConsumerMember, reconciled: ConsumerMember) -> None:
    """Set the timeout of a revocation. Members of the classic protocol have timeouts for JoinGroup and SyncGroup instead."""
    key = RebalanceKey(draft.group_id, reconciled.member_id)
    if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
        draft.after(key, reconciled.rebalance_timeout_ms)
    elif member.state is MemberState.UNREVOKED_PARTITIONS:
        draft.cancel(key)


def response_to(
    draft: ConsumerDraft, body: ConsumerGroupHeartbeatRequest, before: Epochs, reconciled: ConsumerMember
) -> ConsumerGroupHeartbeatResponse:
    """Return the response. It has the assignment after a join or a full request, or if it differs from the assignment `before`."""
    interval_ms = draft.context.settings.group_consumer_heartbeat_interval_ms
    subscribes = body.subscribed_topic_names is not None or body.subscribed_topic_regex is not None
    is_full = body.rebalance_timeout_ms != -1 and subscribes and body.topic_partitions is not None
    response = ConsumerGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=draft.group_setting(HEARTBEAT_INTERVAL, interval_ms),
    )
    if body.member_epoch == JOINING_EPOCH or is_full or before != reconciled.assigned:
        held = [TopicPartitions(topic_id=topic_id, partitions=sorted(has)) for topic_id, has in reconciled.assigned.items()]
        response.assignment = Assignment(topic_partitions=held)
    return response

"""The live migration of a group (KIP-848) to the consumer protocol and back.

A classic group becomes a consumer group when the first member with the consumer protocol joins. It becomes a classic group again
when the last such member leaves. Members of the other protocol keep their partitions and their protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.coord.classic import rebalance
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import ClassicMember, MemberJoined, MemberRejoined
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.group import apply as apply_classic
from ottla.coord.classic.states import State
from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.draft import ConsumerDraft, current_record, member_record
from ottla.coord.consumer.embedded_protocol import (
    PROTOCOL_TYPE,
    EmbeddedSubscription,
    UnreadableAssignment,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coord.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coord.consumer.member import Classic, ConsumerMember
from ottla.coord.consumer.records import (
    ConsumerStored,
    EpochStored,
    TargetEpochStored,
    TargetStored,
)
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.groups import Group
from ottla.coord.member_checks import Refusal
from ottla.coord.outcome import JoinKey, SyncGroupKey
from ottla.coord.records import GroupForgotten, GroupStored
from ottla.coord.runtime.machine import NOBODY
from ottla.wire import Malformed
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND, REBALANCE_IN_PROGRESS

log = logging.getLogger("ottla.coord")

UPGRADES, DOWNGRADES = ("bidirectional", "upgrade"), ("bidirectional", "downgrade")


def upgrade(draft: ConsumerDraft, classic: Group) -> Refusal | None:
    """Convert a classic group with members into a consumer group, whose members keep their partitions. Refuse any other group.

    This ends a rebalance in progress, because the consumer group gets a new assignment.
    """
    if not isinstance(classic, ClassicGroup):
        return Refusal(GROUP_ID_NOT_FOUND, f"Group {classic.group_id} is not a consumer group.")
    refused = _upgrade_error(draft, classic)
    if refused is not None:
        return refused
    try:
        members = _taken_over(classic, draft.context.topics)
    except (Malformed, UnreadableAssignment) as problem:
        return _not_a_consumer_group(classic, f"the embedded consumer protocol is malformed. Its members sent: {problem}")
    log.info("group %s: from the classic to the consumer protocol at generation %d", classic.group_id, classic.generation)
    _answer_waiting(draft, classic)
    draft.unsettled = classic.state is not State.STABLE
    draft.store(GroupForgotten(classic.group_id))
    draft.found(ConsumerGroup(classic.group_id), _first_records(draft, classic, members))
    for member in members:
        draft.expect(member)
    return None


def _upgrade_error(draft: ConsumerDraft, classic: ClassicGroup) -> Refusal | None:
    settings = draft.context.settings
    if settings.group_consumer_migration_policy not in UPGRADES:
        return _not_a_consumer_group(
            classic, "online upgrade is disabled. Set group.consumer.migration.policy to upgrade or bidirectional"
        )
    if classic.protocol_type != PROTOCOL_TYPE:
        return _not_a_consumer_group(
            classic,
            f"the group does not use the consumer embedded protocol. Its members are of the type '{classic.protocol_type}', not "
            f"'{PROTOCOL_TYPE}'",
        )
    if len(classic.members) > settings.group_consumer_max_size:
        return _not_a_consumer_group(
            classic, "the group size exceeds the consumer group maximum size. Raise group.consumer.max.size"
        )
    return None


def _not_a_consumer_group(classic: ClassicGroup, why: str) -> Refusal:
    """Return the refusal of a migration. Kafka's tests compare the beginning of the message."""
    return Refusal(GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.")


def _taken_over(classic: ClassicGroup, topics: KnownTopics) -> list[ConsumerMember]:
    """Return the members as members of a consumer group, with the partitions that are assigned to them or that they still own.

    During a rebalance, there are no assignments yet, while cooperative members still read. If two members report a partition, it
    goes to the member with the later assignment. Raises `Malformed` or `UnreadableAssignment` if a member's bytes are invalid.
    """
    subscriptions = {member_id: _subscription(member, classic, topics) for member_id, member in classic.members.items()}
    held = {member_id: read_assignment(member.assignment, topics) for member_id, member in classic.members.items()}
    taken = {(topic_id, index) for partitions in held.values() for topic_id, indexes in partitions.items() for index in indexes}
    for member_id in sorted(subscriptions, key=lambda member_id: -subscriptions[member_id].generation):
        owned = dict(held[member_id])
        for topic_id, indexes in subscriptions[member_id].owned.items():
            free = frozenset(index for index in indexes if (topic_id, index) not in taken)
            taken |= {(topic_id, index) for index in free}
            if free:
                owned[topic_id] = owned.get(topic_id, frozenset()) | free
        held[member_id] = owned
    return [_as_member(member, classic, subscriptions[member_id], held[member_id]) for member_id, member in classic.members.items()]


def _subscription(member: ClassicMember, classic: ClassicGroup, topics: KnownTopics) -> EmbeddedSubscription:
    return read_subscription(member.metadata(classic.protocol) or member.protocols[0][1], topics)


def _as_member(
    member: ClassicMember, classic: ClassicGroup, subscription: EmbeddedSubscription, held: Partitions
) -> ConsumerMember:
    generation = classic.generation
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=Classic(member.session_timeout_ms, member.protocols),
        epoch=generation,
        previous_epoch=generation,
        assigned={topic_id: dict.fromkeys(sorted(indexes), generation) for topic_id, indexes in held.items()},
    )


def _answer_waiting(draft: ConsumerDraft, classic: ClassicGroup) -> None:
    """Refuse the JoinGroup and SyncGroup requests that wait in the classic group, so that their members rejoin."""
    waiting = ClassicDraft(classic, classic.group_id, draft.context.settings, draft.now, draft.token)
    for member_id, token in classic.joining.items():
        waiting.answer_to(token, rebalance.join_error(REBALANCE_IN_PROGRESS, member_id))
    for token in classic.syncing.values():
        waiting.answer_to(token, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
    waiting.cancel(JoinKey(classic.group_id))
    waiting.cancel(SyncGroupKey(classic.group_id))
    draft.merge(waiting.outcome())


def _first_records(draft: ConsumerDraft, classic: ClassicGroup, members: Sequence[ConsumerMember]) -> list[ConsumerStored]:
    """Return the first records of a consumer group that replaces a classic group: members, epoch, targets and assignments."""
    group_id, epoch = classic.group_id, classic.generation
    subscribed = {member.topics for member in members}
    records: list[ConsumerStored] = [member_record(group_id, member) for member in members]
    records.append(EpochStored(group_id, epoch, draft.context.topics.hash_of(*subscribed)))
    for member in members:
        target = {topic_id: frozenset(held) for topic_id, held in member.assigned.items()}
        records.append(TargetStored(group_id, member.member_id, target))
    records.append(TargetEpochStored(group_id, epoch, 0))
    records += [current_record(group_id, member) for member in members]
    return records


def can_downgrade(draft: ConsumerDraft, leaving: Sequence[ConsumerMember]) -> bool:
    """Return whether the group can become a classic group without `leaving`: all others are classic, and not too many."""
    left = len(draft.group.members) - len(leaving)
    classic_left = draft.group.classic_count - sum(member.classic is not None for member in leaving)
    return 0 < left == classic_left and may_be_classic(draft, left)


def may_be_classic(draft: ConsumerDraft, members: int) -> bool:
    """Return whether settings allow a consumer group with this number of members to become a classic group."""
    settings = draft.context.settings
    return settings.group_consumer_migration_policy in DOWNGRADES and members <= settings.group_max_size


def downgrade(draft: ConsumerDraft, leaving: Sequence[ConsumerMember], reason: str) -> None:
    """Convert a consumer group into a classic group without `leaving`, and start a rebalance."""
    gone = {member.member_id for member in leaving}
    members = [member for member_id, member in draft.group.members.items() if member_id not in gone]
    for member in draft.group.members.values():
        draft.forget(member)
    for record in draft.group.tombstones():
        draft.store(record)
    _begin_classic(draft, members, draft.group.targets, reason)


def downgrade_with(draft: ConsumerDraft, joined: ConsumerMember, *, settled: bool) -> None:
    """Convert a consumer group into a classic group, because its last consumer member joined again with the classic protocol.

    The draft already has the records that replace this member by `joined`. If the assignment is `settled`, no member must rejoin.
    Otherwise a rebalance starts with `joined` as the first member, whose reply then has the next generation.
    """
    group = draft.group
    members = [joined if member_id == draft.replaced else member for member_id, member in group.members.items()]
    for member in group.members.values():
        draft.forget(member)
    for record in group.tombstones(draft.replaced, joined.member_id):
        draft.store(record)
    targets = {**group.targets, joined.member_id: group.targets.get(draft.replaced or "", NO_TARGET)}
    reason = f"static member {joined.member_id} rejoined with the classic protocol"
    _begin_classic(draft, members, targets, None if settled else reason, joined)


def _begin_classic(
    draft: ConsumerDraft,
    members: Sequence[ConsumerMember],
    targets: Mapping[str, Partitions],
    reason: str | None,
    joined: ConsumerMember | None = None,
) -> None:
    """Store the classic group with its members' targets. With a `reason` to rebalance, store their present partitions instead.

    Present partitions are needed if the group becomes a consumer group again before all have rejoined. `joined` is the first member
    of the rebalance.
    """
    if reason is not None:
        targets = {member.member_id: _all_partitions(member) for member in members}
    waiting = ClassicDraft(None, draft.group_id, draft.context.settings, draft.now, draft.token)
    waiting.happen(_at_rest(draft, members, targets, is_settled=reason is None))
    for member in members:
        waiting.expect(member.member_id)
    if reason is not None:
        if joined is not None:
            waiting.happen(_rejoin_event(draft, joined))
        rebalance.begin(waiting, reason)
    log.info("group %s: from the consumer to the classic protocol at generation %d", draft.group_id, draft.group.epoch)
    draft.merge(waiting.outcome())


def _rejoin_event(draft: ConsumerDraft, member: ConsumerMember) -> MemberRejoined:
    """Return the event by which the request that is being decided becomes a waiting JoinGroup of this member."""
    assert member.classic is not None, "it joined with the classic protocol"
    timeout_ms, session_timeout_ms = member.rebalance_timeout_ms, member.classic.session_timeout_ms
    return MemberRejoined(draft.group_id, member.member_id, member.classic.protocols, timeout_ms, session_timeout_ms, draft.token)


def _all_partitions(member: ConsumerMember) -> Partitions:
    """Return the partitions that a member has or must still revoke."""
    held = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in member.revoking.items():
        held[topic_id] = held.get(topic_id, frozenset()) | frozenset(partitions)
    return held


def _at_rest(
    draft: ConsumerDraft, members: Sequence[ConsumerMember], targets: Mapping[str, Partitions], *, is_settled: bool
) -> GroupStored:
    """Return the record of the classic group, with the protocol that its members elect and their encoded assignments.

    If `is_settled` is False, the record has no leader, so that a coordinator that loads it makes the members rejoin.
    """
    twin = ClassicGroup(draft.group_id)
    for member in members:
        apply_classic(twin, MemberJoined(draft.group_id, _classic(member), PROTOCOL_TYPE, NOBODY))
    twin.generation = draft.group.epoch
    twin.protocol = twin.choose_protocol()
    topics = draft.context.topics
    assignments = {
        member.member_id: write_assignment(targets.get(member.member_id, NO_TARGET), topics, member.metadata(twin.protocol))
        for member in twin.members.values()
    }
    if not is_settled:
        twin.leader = None
    return twin.at_rest(assignments, draft.now.wall_ms)


def _classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only members of the classic protocol are left"
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols,
    )

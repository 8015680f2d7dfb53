"""The target assignment of a group: computed once per group epoch, and stored only for the members for whom it changes."""

from __future__ import annotations

import logging
from typing import Final

from ottla.coord.consumer.assign import Partitions, Subscriber
from ottla.coord.consumer.draft import ASSIGNMENT_INTERVAL, ConsumerDraft
from ottla.coord.consumer.group import NO_TARGET
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.reconcile import Target
from ottla.coord.consumer.records import TargetEpochStored, TargetStored
from ottla.coord.consumer.subscription import Outlook, preferred
from ottla.wire.schema import Uuid

log = logging.getLogger("ottla.coord")

_new_subscriber: Final = tuple.__new__  # the constructor of a NamedTuple is Python and takes three times as long


def target(draft: ConsumerDraft, look: Outlook, member: ConsumerMember, updated: ConsumerMember) -> Target:
    """The member's target: from the current assignment, or from a new one if the group's epoch calls for it and it is time."""
    group = draft.group
    if group.assignment_epoch >= look.epoch or not _is_time(draft):
        return Target(group.assignment_epoch, group.targets.get(draft.replaced or updated.member_id, NO_TARGET))
    return _computed(draft, look, member, updated)


def _is_time(draft: ConsumerDraft) -> bool:
    """Not too often: many members that join at once share one assignment (KIP-1263)."""
    made_ms = draft.group.assignment_wall_ms
    interval_ms = draft.setting(ASSIGNMENT_INTERVAL, draft.context.settings.group_consumer_assignment_interval_ms)
    # An assignment that seems to be yet to come was made before somebody turned the clock back.
    return made_ms == 0 or interval_ms == 0 or not 0 <= draft.now.wall_ms - made_ms < interval_ms


def _computed(draft: ConsumerDraft, look: Outlook, member: ConsumerMember, updated: ConsumerMember) -> Target:
    group, topics = draft.group, draft.context.topics
    members = {**group.members, updated.member_id: updated}
    targets = group.targets
    if draft.replaced is not None:
        del members[draft.replaced]
        targets = {**targets, updated.member_id: targets.get(draft.replaced, NO_TARGET)}
    name = preferred(draft, member, updated)
    assigned = draft.context.assignors[name].assign(_subscribers(draft, look, members, targets), topics.shapes)
    for member_id in members:
        before, after = targets.get(member_id), assigned.get(member_id, NO_TARGET)
        if before is None or (before is not after and before != after):
            draft.store(TargetStored(group.group_id, member_id, after))
    draft.store(TargetEpochStored(group.group_id, look.epoch, draft.now.wall_ms))
    sentence, cause = "group %s: %s assigned anew for epoch %d with %d members", {"cause": "group assignment", "most": 3}
    log.info(sentence, group.group_id, name, look.epoch, len(members), extra=cause)
    return Target(look.epoch, assigned.get(updated.member_id, NO_TARGET))


def _subscribers(
    draft: ConsumerDraft, look: Outlook, members: dict[str, ConsumerMember], targets: dict[str, Partitions]
) -> dict[str, Subscriber]:
    """The members as an assignor sees them; members with one subscription share one set of topics."""
    known: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    subscribers = {}
    for member_id, member in members.items():
        topic_ids = known.get((member.topics, member.pattern))
        if topic_ids is None:
            topic_ids = known[member.topics, member.pattern] = draft.context.topics.ids_of(look.topics_of(member))
        described = topic_ids, member.instance_id, member.rack_id, targets.get(member_id, NO_TARGET)
        subscribers[member_id] = _new_subscriber(Subscriber, described)
    return subscribers

"""The target assignment of a group: computed once per group epoch, and stored only for members whose target changes.

The decision that needs a small group's assignment also computes it. A large group's assignment only begins then, from a snapshot of
the group, and `ottla.coord.consumer.slow_target` continues it. The group keeps working meanwhile, and a higher epoch leads to
another assignment.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Assignor, Partitions, PatientAssignor, Subscriber, TopicShape, finish
from ottla.coord.consumer.draft import ASSIGNMENT_INTERVAL, ConsumerDraft
from ottla.coord.consumer.events import AssignmentBegun
from ottla.coord.consumer.group import NO_TARGET
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.reconcile import Target
from ottla.coord.consumer.records import TargetEpochStored, TargetStored
from ottla.coord.consumer.subscription import Outlook, choose_assignor
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.outcome import AssignmentKey, AwaitedTarget, ChangedTarget
from ottla.ports import Pauses
from ottla.wire.schema import Uuid

log = logging.getLogger("ottla.coord")

MOST_AT_ONCE: Final = 500
"""The most members and partitions that are assigned without pauses. Each takes about four microseconds, as do ten topic names."""

PAUSE_MS: Final = 2
"""The pause between two steps of a long assignment, in ms. Each step takes about a millisecond."""

_new_subscriber: Final = tuple.__new__  # a NamedTuple's constructor is Python code, and takes three times as long


def find_target(draft: ConsumerDraft, outlook: Outlook, member: ConsumerMember, updated: ConsumerMember) -> Target:
    """Return the member's target, from a new assignment if one is due, else from the present assignment.

    If a new assignment takes long, begin it, and return the target from the present assignment.
    """
    group = draft.group
    if _is_due(draft, outlook):
        if not _is_large(draft, outlook, updated):
            return _compute(draft, outlook, member, updated)
        begin(draft, outlook, member, updated, None)
    return Target(group.assignment_epoch, group.targets.get(draft.replaced or updated.member_id, NO_TARGET))


def is_long(draft: ConsumerDraft, outlook: Outlook, updated: ConsumerMember) -> bool:
    """Return whether a new assignment is due and is so large that it must pause."""
    return _is_due(draft, outlook) and _is_large(draft, outlook, updated)


def begin(
    draft: ConsumerDraft, outlook: Outlook, member: ConsumerMember, updated: ConsumerMember, awaited: AwaitedTarget | None
) -> None:
    """Begin a long assignment. The heartbeat in `awaited` is answered at its end."""
    members, targets = _as_they_become(draft, updated)
    snapshot = outlook._replace(resolved=dict(outlook.resolved))
    assignor = draft.context.assignors[choose_assignor(draft, member, updated)]
    work = _changes(draft.group_id, assignor, draft.context.topics, snapshot, members, dict(targets))
    draft.store(AssignmentBegun(draft.group_id, draft.token))
    draft.after(AssignmentKey(draft.group_id, draft.token, outlook.epoch, work, awaited), PAUSE_MS)


def _is_due(draft: ConsumerDraft, outlook: Outlook) -> bool:
    group = draft.group
    return group.assignment_epoch < outlook.epoch and group.assigning is None and _is_time(draft)


def _is_large(draft: ConsumerDraft, outlook: Outlook, updated: ConsumerMember) -> bool:
    """Return whether members, topic names and partitions together exceed `MOST_AT_ONCE`. Counting stops at the limit."""
    left = MOST_AT_ONCE - len(draft.group.members)
    seen: set[str] = set()
    for names in (outlook.topics_of(updated), *draft.group.subscribed_topics()):
        left -= len(names) // 10
        if left < 0:
            return True
        for name in names - seen:
            topic = draft.context.topics.topic(name)
            left -= 0 if topic is None else topic.shape.partitions
        seen |= names
    return left < 0


def _is_time(draft: ConsumerDraft) -> bool:
    """Return whether the last assignment is old enough to compute another one. Members that join meanwhile share it (KIP-1263)."""
    made_ms = draft.group.assignment_wall_ms
    interval_ms = draft.group_setting(ASSIGNMENT_INTERVAL, draft.context.settings.group_consumer_assignment_interval_ms)
    # If the time of the last assignment is in the future, the clock was set back after it.
    return made_ms == 0 or interval_ms == 0 or not 0 <= draft.now.wall_ms - made_ms < interval_ms


def _compute(draft: ConsumerDraft, outlook: Outlook, member: ConsumerMember, updated: ConsumerMember) -> Target:
    members, targets = _as_they_become(draft, updated)
    assignor = draft.context.assignors[choose_assignor(draft, member, updated)]
    found = targets.get(updated.member_id, NO_TARGET)
    for changed in finish(_changes(draft.group_id, assignor, draft.context.topics, outlook, members, targets)):
        draft.store(changed.record)
        if changed.record.member_id == updated.member_id:
            found = changed.record.partitions
    draft.store(TargetEpochStored(draft.group_id, outlook.epoch, draft.now.wall_ms))
    return Target(outlook.epoch, found)


def _as_they_become(draft: ConsumerDraft, updated: ConsumerMember) -> tuple[dict[str, ConsumerMember], Mapping[str, Partitions]]:
    """Return the group's members and their target assignments as they are after the present decision.

    A static member that joins again can have the same member id as before.
    """
    group = draft.group
    members = {**group.members, updated.member_id: updated}
    if draft.replaced in (None, updated.member_id):
        return members, group.targets
    del members[draft.replaced]
    return members, {**group.targets, updated.member_id: group.targets.get(draft.replaced, NO_TARGET)}


def _changes(
    group_id: str,
    assignor: Assignor,
    topics: KnownTopics,
    outlook: Outlook,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Partitions],
) -> Pauses[list[ChangedTarget]]:
    """Compute the assignment with pauses, and return the targets that differ from `targets`."""
    subscribers, shapes = yield from _subscribers(topics, outlook, members, targets)
    assigned = yield from _run_assignor(assignor, subscribers, shapes)
    changes = []
    for count, (member_id, member) in enumerate(members.items()):
        before, after = targets.get(member_id), assigned.get(member_id, NO_TARGET)
        if before is None or (before is not after and before != after):
            changes.append(ChangedTarget(TargetStored(group_id, member_id, after), member.instance_id))
        if count % BETWEEN_PAUSES == BETWEEN_PAUSES - 1:
            yield None
    sentence, cause = "group %s: %s computed the assignment of epoch %d for %d members", {"cause": "group assignment", "most": 3}
    log.info(sentence, group_id, assignor.name, outlook.epoch, len(members), extra=cause)
    return changes


def _run_assignor(
    assignor: Assignor, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
) -> Pauses[Mapping[str, Partitions]]:
    if isinstance(assignor, PatientAssignor):
        return (yield from assignor.assign_slowly(subscribers, topics))
    return assignor.assign(subscribers, topics)


def _subscribers(
    topics: KnownTopics, outlook: Outlook, members: Mapping[str, ConsumerMember], targets: Mapping[str, Partitions]
) -> Pauses[tuple[dict[str, Subscriber], dict[Uuid, TopicShape]]]:
    """Return the input of the assignor: the subscribers by member id, and the shapes of all subscribed topics.

    Members with equal subscriptions share one set of topics.
    """
    known: dict[tuple[frozenset[str], str], frozenset[Uuid]] = {}
    shapes: dict[Uuid, TopicShape] = {}
    subscribers: dict[str, Subscriber] = {}
    for member_id, member in members.items():
        topic_ids = known.get((member.topics, member.pattern))
        if topic_ids is None:
            found = topics.shapes_of(outlook.topics_of(member))
            topic_ids = known[member.topics, member.pattern] = frozenset(found)
            shapes |= found
        described = topic_ids, member.instance_id, member.rack_id, targets.get(member_id, NO_TARGET)
        subscribers[member_id] = _new_subscriber(Subscriber, described)
        if len(subscribers) % BETWEEN_PAUSES == 0:
            yield None
    return subscribers, shapes

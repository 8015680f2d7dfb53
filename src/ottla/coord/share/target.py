"""The target assignment of a share group: computed once per group epoch, and stored only for members whose target changes.

The decision that needs a small group's assignment also computes it. A large group's assignment only begins then, and continues in
steps with pauses. Members keep their targets meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from ottla.coord.consumer.assign import BETWEEN_PAUSES, NO_PARTITIONS, Partitions, Subscriber, finish
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.share.draft import ASSIGNMENT_INTERVAL, ShareDraft
from ottla.coord.share.events import ShareAssignmentBegun, ShareAssignmentEnded
from ottla.coord.share.member import ShareMember
from ottla.coord.share.records import PartitionsByTopic, ShareTargetEpochStored, ShareTargetStored
from ottla.coord.share.simple_assignor import SIMPLE, assign_slowly
from ottla.ports import Pauses
from ottla.values import dataclass
from ottla.wire.schema import Uuid

log = logging.getLogger("ottla.coord")

MOST_AT_ONCE: Final = 500
"""The most members and partitions that are assigned without pauses. Each takes about four microseconds."""

PAUSE_MS: Final = 2
"""The pause between two steps of a long assignment, in ms. Each step takes about a millisecond."""

STORED_AT_ONCE: Final = 50
"""The number of targets that are stored in one step, which takes a millisecond even if each has twenty partitions."""


class ShareTarget(NamedTuple):
    """A member's target assignment, and its epoch."""

    epoch: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ShareAssignmentKey:
    """The timer of the next step of a large group's assignment, which began with group epoch `epoch` and `token`.

    The step runs a part of `work`, or stores targets in `found` from `at` on.
    """

    group_id: str
    token: int
    epoch: int = field(compare=False)
    work: Pauses[list[ShareTargetStored]] = field(compare=False, repr=False)
    found: tuple[ShareTargetStored, ...] | None = field(default=None, compare=False, repr=False)
    at: int = field(default=0, compare=False)


def find_target(draft: ShareDraft, epoch: int, updated: ShareMember) -> ShareTarget:
    """Return the member's target, from a new assignment if one for `epoch` is due, else from the present assignment."""
    group = draft.group
    if group.assignment_epoch < epoch and group.assigning is None and _is_time(draft):
        members = {**group.members, updated.member_id: updated}
        work = _changes(group.group_id, draft.context.topics, epoch, members, dict(group.targets), group.initialized)
        if not _is_large(draft):
            return _compute(draft, epoch, updated, work)
        draft.store(ShareAssignmentBegun(group.group_id, draft.token))
        draft.after(ShareAssignmentKey(group.group_id, draft.token, epoch, work), PAUSE_MS)
    return ShareTarget(group.assignment_epoch, group.targets.get(updated.member_id, NO_PARTITIONS))


def continue_assignment(draft: ShareDraft, key: ShareAssignmentKey) -> None:
    """Run the next step of a group's long assignment, unless the group was replaced meanwhile."""
    if draft.group.assigning != key.token:
        return
    group_id, token, epoch, work = key.group_id, key.token, key.epoch, key.work
    if key.found is None:
        try:
            next(work)
        except StopIteration as end:
            key = ShareAssignmentKey(group_id, token, epoch, work, tuple(end.value))
        draft.after(key, PAUSE_MS)
        return
    end_at = key.at + STORED_AT_ONCE
    for record in key.found[key.at : end_at]:
        if record.member_id in draft.group.members:
            draft.store(record)
    if end_at < len(key.found):
        draft.after(ShareAssignmentKey(group_id, token, epoch, work, key.found, end_at), PAUSE_MS)
    else:
        draft.store(ShareTargetEpochStored(group_id, epoch, draft.now.wall_ms))
        draft.store(ShareAssignmentEnded(group_id))


def lacks_members(draft: ShareDraft) -> bool:
    """Return whether an initialized partition of a subscribed topic has no member, so that a new assignment is needed.

    The result is cached until members, targets or the initialized partitions change.
    """
    group = draft.group
    if group.covered is None:
        group.covered = not any(_changed_topics(draft))  # a cache, which no record needs to restore
    return not group.covered


def _changed_topics(draft: ShareDraft) -> Iterator[bool]:
    """Yield for each subscribed topic whether its initialized and its assigned partitions differ."""
    group = draft.group
    if not group.members or not group.initialized:
        return
    assigned: dict[Uuid, set[int]] = {}
    for partitions in group.targets.values():
        for topic_id, numbers in partitions.items():
            assigned.setdefault(topic_id, set()).update(numbers)
    for topic_id, held in group.initialized.items():
        if group.is_subscribed(held.name) and draft.context.topics.with_id(topic_id) is not None:
            yield held.partitions != frozenset(assigned.get(topic_id, ()))


def _is_time(draft: ShareDraft) -> bool:
    """Return whether the last assignment is old enough to compute another one. Members that join meanwhile share it (KIP-1263)."""
    made_ms = draft.group.assignment_wall_ms
    interval_ms = draft.group_setting(ASSIGNMENT_INTERVAL, draft.context.settings.group_share_assignment_interval_ms)
    # If the time of the last assignment is in the future, the clock was set back after it.
    return made_ms == 0 or interval_ms == 0 or not 0 <= draft.now.wall_ms - made_ms < interval_ms


def _is_large(draft: ShareDraft) -> bool:
    group = draft.group
    partitions = sum(len(held.partitions) for held in group.initialized.values())
    names = sum(len(topics) // 10 for topics in group.subscriptions)
    return len(group.members) + partitions + names > MOST_AT_ONCE


def _compute(draft: ShareDraft, epoch: int, updated: ShareMember, work: Pauses[list[ShareTargetStored]]) -> ShareTarget:
    found = draft.group.targets.get(updated.member_id, NO_PARTITIONS)
    for record in finish(work):
        draft.store(record)
        if record.member_id == updated.member_id:
            found = record.partitions
    draft.store(ShareTargetEpochStored(draft.group_id, epoch, draft.now.wall_ms))
    return ShareTarget(epoch, found)


def _changes(
    group_id: str,
    topics: KnownTopics,
    epoch: int,
    members: Mapping[str, ShareMember],
    targets: Mapping[str, Partitions],
    initialized: PartitionsByTopic,
) -> Pauses[list[ShareTargetStored]]:
    """Compute the assignment with pauses, and return the targets that differ from `targets`."""
    ids: dict[frozenset[str], frozenset[Uuid]] = {}
    subscribers: dict[str, Subscriber] = {}
    for member_id, member in members.items():
        if member.topics not in ids:
            ids[member.topics] = frozenset(topics.shapes_of(member.topics))
            yield None
        subscribers[member_id] = Subscriber(ids[member.topics], owned=targets.get(member_id, NO_PARTITIONS))
    assignable = {topic_id: held.partitions for topic_id, held in initialized.items() if topics.with_id(topic_id) is not None}
    assigned = yield from assign_slowly(subscribers, assignable)
    changes = []
    for count, (member_id, after) in enumerate(assigned.items()):
        before = targets.get(member_id)
        if before is None or (before is not after and before != after):
            changes.append(ShareTargetStored(group_id, member_id, after))
        if count % BETWEEN_PAUSES == BETWEEN_PAUSES - 1:
            yield None
    sentence, cause = "group %s: %s computed the assignment of epoch %d for %d members", {"cause": "group assignment", "most": 3}
    log.info(sentence, group_id, SIMPLE, epoch, len(members), extra=cause)
    return changes

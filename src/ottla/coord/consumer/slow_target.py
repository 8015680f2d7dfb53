"""A long assignment in steps with pauses between them: compute it, store the targets, and answer the heartbeat that began it.

The result is stored even if the group has changed meanwhile, for members that are still present. Otherwise a group whose members
change often would never get an assignment. The change has raised the group's epoch, so another assignment follows. Whatever the
targets are, no member gets a partition that another member still has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.coord.consumer.draft import ConsumerDraft
from ottla.coord.consumer.events import AssignmentEnded
from ottla.coord.consumer.group import NO_TARGET, ConsumerGroup
from ottla.coord.consumer.heartbeat import owned_of, reconcile_member, refusal, response_to
from ottla.coord.consumer.reconcile import Target
from ottla.coord.consumer.records import TargetEpochStored, TargetStored
from ottla.coord.consumer.subscription import Outlook
from ottla.coord.consumer.target import PAUSE_MS
from ottla.coord.member_checks import Refusal, unknown_member
from ottla.coord.outcome import AssignmentKey, AwaitedTarget, ChangedTarget

STORED_AT_ONCE: Final = 100
"""The number of targets that are stored in one step. Each takes about six microseconds to store and apply."""


def continue_assignment(draft: ConsumerDraft, key: AssignmentKey) -> None:
    """Run the next step of a group's long assignment.

    If the group was replaced meanwhile, refuse the heartbeat that waits for the assignment, so that its member joins again.
    """
    if draft.group.assigning != key.token:
        cancel_assignment(draft, key)
    elif key.found is None:
        draft.after(_run_step(key), PAUSE_MS)
    else:
        end = key.at + STORED_AT_ONCE
        for changed in key.found[key.at : end]:
            member_id = _holder(draft.group, changed)
            if member_id is not None:
                draft.store(TargetStored(key.group_id, member_id, changed.record.partitions))
        if end < len(key.found):
            draft.after(replace(key, at=end), PAUSE_MS)
        else:
            _end(draft, key, key.found)


def cancel_assignment(draft: ConsumerDraft, key: AssignmentKey) -> None:
    """Refuse the heartbeat that waits for a long assignment, because the assignment is cancelled."""
    if key.awaited is not None:
        draft.answer(refusal(unknown_member(draft.group_id, key.awaited.member_id)), key.token)


def _run_step(key: AssignmentKey) -> AssignmentKey:
    try:
        next(key.work)
    except StopIteration as end:
        return replace(key, found=tuple(end.value))
    return key


def _holder(group: ConsumerGroup, changed: ChangedTarget) -> str | None:
    """Return the id of the member in `changed`, or of the static member that replaced it; None if neither is present."""
    member_id = changed.record.member_id
    if member_id in group.members or changed.instance_id is None:
        return member_id if member_id in group.members else None
    return group.static.get(changed.instance_id)


def _end(draft: ConsumerDraft, key: AssignmentKey, found: tuple[ChangedTarget, ...]) -> None:
    draft.store(TargetEpochStored(key.group_id, key.epoch, draft.now.wall_ms))
    draft.store(AssignmentEnded(key.group_id))
    if key.awaited is not None:
        _answer(draft, key, found, key.awaited)


def _answer(draft: ConsumerDraft, key: AssignmentKey, found: tuple[ChangedTarget, ...], awaited: AwaitedTarget) -> None:
    """Answer the heartbeat that began the assignment, with the result of the assignment."""
    member = draft.group.members.get(awaited.member_id)
    if member is None:
        cancel_assignment(draft, key)
        return
    own = (changed.record.partitions for changed in found if changed.record.member_id == member.member_id)
    target = Target(key.epoch, next(own, draft.group.targets.get(member.member_id, NO_TARGET)))
    outlook = Outlook(draft.group.epoch, draft.group.resolved, awaited.changed)
    body = awaited.asked.body
    reconciled = reconcile_member(draft, outlook, member, target, owned_of(body))
    if isinstance(reconciled, Refusal):
        draft.answer(refusal(reconciled), key.token)
        return
    draft.expect(reconciled)
    draft.answer(response_to(draft, body, awaited.assigned, reconciled), key.token)

"""The current tasks of a member of a streams group (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i32, message, since, struct


@message(key=22, valid="0")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=22, valid="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Epochs, state, assigned tasks and tasks to revoke."""

    @struct
    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()
        assignment_epochs: list[i32] | None = since(tag=0)

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()

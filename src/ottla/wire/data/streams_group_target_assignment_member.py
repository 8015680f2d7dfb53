"""The target tasks of a member of a streams group (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, message, since, struct


@message(key=21, valid="0")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=21, valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The active, standby and warm-up tasks of the member's target assignment."""

    @struct
    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()

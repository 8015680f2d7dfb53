"""Checks of a StreamsGroupHeartbeat: the request itself, the member's epoch, and its instance id. The order is Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from ottla.coord.member_checks import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Refusal,
    blank_error,
    invalid,
    static_leave_error,
    wrong_epoch,
)
from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.topology.endpoints import task_fault
from ottla.coord.streams.topology.request import CheckedTopology, has_patterns
from ottla.coord.streams.values import ConfiguredTopology, TaskIds, TaskSets
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, STREAMS_INVALID_TOPOLOGY

WARMUPS_FROM = 1
"""The first version of heartbeats with static members, warm-up tasks, and offsets of tasks."""

STATUS_OF_TAGS_FROM = 1
"""The first version of heartbeats whose response can have the status MISSING_CLIENT_TAGS."""

TaskOffset = StreamsGroupHeartbeatRequest.TaskOffset


def request_error(body: StreamsGroupHeartbeatRequest, checked: CheckedTopology | None, version: int) -> Refusal | None:
    """Return the refusal of an invalid request with a `checked` topology, whatever the state of its group; None if it is valid."""
    unsupported = _unsupported_part(body, checked, version)
    if unsupported is not None:
        return invalid(unsupported)
    refused = blank_error(MemberId=body.member_id, GroupId=body.group_id, InstanceId=body.instance_id, RackId=body.rack_id)
    if refused is not None:
        return refused
    return _epoch_error(body, checked) or _lists_error(body)


def _unsupported_part(body: StreamsGroupHeartbeatRequest, checked: CheckedTopology | None, version: int) -> str | None:
    """Return a sentence about the first thing that no group, or no member of this version, can use yet; None otherwise."""
    if version < WARMUPS_FROM:
        if body.instance_id is not None:
            return f"Static membership is not yet supported: it needs version {WARMUPS_FROM} of heartbeats."
        for name, offsets in (("TaskOffsets", body.task_offsets), ("TaskEndOffsets", body.task_end_offsets)):
            if offsets is not None:
                return f"{name} are not supported yet: they need version {WARMUPS_FROM} of heartbeats."
        if body.warmup_tasks:
            return f"WarmupTasks are not supported yet: they need version {WARMUPS_FROM} of heartbeats."
    if checked is not None and has_patterns(checked.topology):
        return "Regular expressions for source topics are not supported yet: name the topics."
    return None


def _epoch_error(body: StreamsGroupHeartbeatRequest, checked: CheckedTopology | None) -> Refusal | None:
    epoch = body.member_epoch
    if epoch == JOINING_EPOCH:
        return _joining_error(body, checked)
    if epoch < STATIC_LEAVING_EPOCH:
        return invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    return static_leave_error(epoch, body.instance_id)


def _joining_error(body: StreamsGroupHeartbeatRequest, checked: CheckedTopology | None) -> Refusal | None:
    if body.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request: set it when joining.")
    for name, tasks in (("Active", body.active_tasks), ("Standby", body.standby_tasks), ("Warmup", body.warmup_tasks)):
        if tasks is None or tasks:
            return invalid(f"{name}Tasks must be empty when (re-)joining: send an empty list.")
    if checked is None:
        return invalid("Topology must be non-null when (re-)joining: send the topology of the application.")
    return None if checked.fault is None else Refusal(STREAMS_INVALID_TOPOLOGY, checked.fault)


def _lists_error(body: StreamsGroupHeartbeatRequest) -> Refusal | None:
    kinds = body.active_tasks, body.standby_tasks, body.warmup_tasks
    if any(kind is None for kind in kinds) and any(kind is not None for kind in kinds):
        return invalid("If one task-type is non-null, all must be non-null: send all three lists, or none.")
    if body.member_epoch != JOINING_EPOCH and body.topology is not None:
        return invalid("Topology can only be provided when (re-)joining: send null.")
    tags = [tag.key for tag in body.client_tags or ()]
    if len(set(tags)) < len(tags):
        return invalid("ClientTags contain a key twice: send one value for each key.")
    for offsets in (body.task_offsets, body.task_end_offsets):
        if offsets is not None and len(offset_table(offsets)) < len(offsets):
            return invalid("Task offsets contain a duplicate entry: send one offset for each task.")
    return None


def offset_table(offsets: Iterable[TaskOffset]) -> dict[tuple[str, int], int]:
    """Return reported offsets by task."""
    return {(each.subtopology_id, each.partition): each.offset for each in offsets}


def owned_of(body: StreamsGroupHeartbeatRequest) -> TaskSets | None:
    """Return the tasks that a member reports as owned; None if the request omits them."""
    if body.active_tasks is None or body.standby_tasks is None or body.warmup_tasks is None:
        return None
    return TaskSets(_task_ids(body.active_tasks), _task_ids(body.standby_tasks), _task_ids(body.warmup_tasks))


def _task_ids(listed: Iterable[StreamsGroupHeartbeatRequest.TaskIds]) -> TaskIds:
    tasks: dict[str, frozenset[int]] = {}
    for each in listed:
        if each.partitions:
            tasks[each.subtopology_id] = tasks.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return tasks


def owned_error(owned: TaskSets | None, configured: ConfiguredTopology) -> Refusal | None:
    """Return a refusal if a member reports tasks that the topology does not have."""
    faults = (task_fault(tasks, configured) for tasks in owned or ())
    fault = next((fault for fault in faults if fault is not None), None)
    return None if fault is None else invalid(fault)


def group_size_error(group: StreamsGroup, instance_id: str | None, max_size: int) -> Refusal | None:
    """Return a refusal if the group is full, even for a member that is in it. Static members that return are never refused."""
    if len(group.members) < max_size or instance_id in group.static:
        return None
    return Refusal(GROUP_MAX_SIZE_REACHED, f"The streams group has reached its maximum capacity of {max_size} members.")


def epoch_error(member: StreamsMember, epoch: int, owned: TaskSets | None) -> Refusal | None:
    """Return a refusal unless a member sends its present epoch, or 0 to join again.

    A member that missed the last reply can send its previous epoch, but may then own only tasks that are assigned to it.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return None
    if epoch < member.epoch and epoch == member.previous_epoch and owned is not None and _has_all(member, owned):
        return None
    return wrong_epoch("streams", epoch, member.epoch, "give up all tasks")


def _has_all(member: StreamsMember, owned: TaskSets) -> bool:
    """Return whether all owned tasks are assigned to the member."""
    assigned = member.assigned
    kinds: tuple[tuple[TaskIds, Mapping[str, Mapping[int, int] | AbstractSet[int]]], ...] = (
        (owned.active, assigned.active),
        (owned.standby, assigned.standby),
        (owned.warmup, assigned.warmup),
    )
    return all(
        partition in held.get(subtopology_id, ())
        for tasks, held in kinds
        for subtopology_id, partitions in tasks.items()
        for partition in partitions
    )

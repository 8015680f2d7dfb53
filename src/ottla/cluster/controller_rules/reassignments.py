"""Reassignments of partitions to other replicas (KIP-455): valid requests, completion, and the leader afterwards.

A reassignment has two parts. First a partition has both its former and its target replicas, until all target replicas are in sync.
Then a target replica leads, and the other replicas are removed. The topic's entry is written last, because only this entry contains
the former replicas. The module reads the context and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.cluster import layout
from ottla.cluster.controller_rules.context import AT_ONCE, ControllerContext, LeaderAndIsr, ReplicaAssignment, TopicPartition
from ottla.ports import Pauses
from ottla.wire.errors import (
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_TOPIC_OR_PARTITION,
)

REASSIGNMENTS = "/admin/reassign_partitions"
"""The entry in which tools from before 2.6 request reassignments."""
PREFERRED_ELECTIONS = "/admin/preferred_replica_election"
"""The entry in which tools from before 2.2 request elections of preferred leaders."""

Fault = tuple[int, str]
"""A refusal: an error code, and a message for people."""


def begin_reassignment(assignment: ReplicaAssignment, target: Sequence[int]) -> ReplicaAssignment:
    """Return the assignment during a reassignment to `target`. It replaces a reassignment in progress, but keeps its origin."""
    origin = assignment.origin
    both = tuple(dict.fromkeys((*target, *origin)))
    adding = tuple(node for node in both if node not in origin)
    return ReplicaAssignment(both, adding, tuple(node for node in both if node not in target))


def request_reassignment(
    context: ControllerContext, partition: TopicPartition, target: Sequence[int] | None, *, may_resize: bool = True
) -> ReplicaAssignment | Fault:
    """Return the assignment during a reassignment to `target`, or the refusal. A `target` of None cancels the reassignment.

    Without `may_resize` a target with another number of replicas is refused.
    """
    present = context.assignment(partition)
    if not present.replicas:
        return UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist: refresh the metadata."
    if target is None and not present.is_being_reassigned:
        return NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress: there is nothing to cancel."
    if target is not None and not may_resize and len(target) != len(present.origin):
        return (
            INVALID_REPLICATION_FACTOR,
            f"There are {len(present.origin)} replicas, and their number may not change: name the same number.",
        )
    after = begin_reassignment(present, present.origin if target is None else target)
    sentence = "" if target is None else _fault(context, present, target)
    state = context.leaders.get(partition)
    if state is not None and not set(state.isr) & set(after.replicas):
        sentence = f"Only replicas {list(state.isr)} are in sync, and none of them would remain: wait until others are in sync."
    return (INVALID_REPLICA_ASSIGNMENT, sentence) if sentence else after


def _fault(context: ControllerContext, present: ReplicaAssignment, target: Sequence[int]) -> str:
    """Return a message that says why these target replicas are invalid; empty if they are valid."""
    if not target:
        return "Empty replica list specified in partition reassignment: name at least one broker."
    if len(set(target)) < len(target):
        return f"Duplicate replica ids in partition reassignment replica list {list(target)}: name each broker once."
    if min(target) < 0:
        return f"Invalid broker id in replica list {list(target)}: ids are 0 or more."
    dead = [node for node in begin_reassignment(present, target).adding if node not in context.live()]
    if dead:
        live = ", ".join(map(str, sorted(context.live())))
        return f"Replica assignment has brokers that are not alive: {dead}; choose among {live}."
    return ""


def is_complete(context: ControllerContext, partition: TopicPartition) -> bool:
    """Return whether all target replicas of a partition are in sync."""
    state = context.leaders.get(partition)
    return state is not None and set(context.assignment(partition).target) <= set(state.isr)


def updated_partitions(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state of a partition in a new leader epoch after its assignment changed; None if no replica can lead.

    The new epoch makes brokers apply the assignment. Replicas that are no longer assigned leave the in-sync set.
    """
    return _led_within(context, partition, context.assignment(partition).replicas)


def restrict_to_target(context: ControllerContext, partition: TopicPartition) -> LeaderAndIsr | None:
    """Return the state with only the target replicas of a reassignment in the in-sync set; None if none is online and in sync.

    The present leader stays if it is such a replica. Otherwise the first such replica leads.
    """
    return _led_within(context, partition, context.assignment(partition).target)


def _led_within(context: ControllerContext, partition: TopicPartition, replicas: Sequence[int]) -> LeaderAndIsr | None:
    state = context.leaders.get(partition)
    if state is None:
        return None
    able = [node for node in replicas if node in state.isr and context.is_online(node, partition)]
    if not able:
        return None
    leader = state.leader if state.leader in able else able[0]
    return state.with_leader(leader, tuple(node for node in state.isr if node in replicas))


def moves_wanted(value: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Parse the value of `REASSIGNMENTS` that a tool has written. Raises `ValueError`."""
    try:
        return {where: layout.nodes(one["replicas"]) for where, one in _partitions(value).items()}
    except layout.NOT_UNDERSTOOD as error:
        raise ValueError(layout.why(error)) from error


def value_of(moves: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Encode the remaining reassignments as a value of `REASSIGNMENTS`."""
    partitions = [{"topic": name, "partition": index, "replicas": list(nodes)} for (name, index), nodes in moves.items()]
    return layout.json_bytes({"version": 1, "partitions": partitions})


def elections_wanted(value: bytes) -> list[TopicPartition]:
    """Parse the value of `PREFERRED_ELECTIONS` that a tool has written. Raises `ValueError`."""
    return list(_partitions(value))


def _partitions(value: bytes) -> dict[TopicPartition, Any]:
    try:
        return {(layout.text(one["topic"]), layout.whole(one["partition"])): one for one in layout.read(value)["partitions"]}
    except layout.NOT_UNDERSTOOD as error:
        raise ValueError(layout.why(error)) from error


def find_imbalanced(
    context: ControllerContext, partitions: Iterable[TopicPartition], percentage: int
) -> Pauses[list[TopicPartition]]:
    """Return the partitions whose preferred leader does not lead them, with pauses during the search.

    A broker counts as balanced, and its partitions are omitted, if it lacks at most `percentage` percent of its preferred
    leaderships.
    """
    mine: Counter[int] = Counter()
    missed: dict[int, list[TopicPartition]] = {}
    for number, partition in enumerate(partitions, 1):
        replicas = context.assignment(partition).replicas
        if replicas and partition in context.leaders:
            mine[replicas[0]] += 1
            if context.leaders[partition].leader != replicas[0]:
                missed.setdefault(replicas[0], []).append(partition)
        if number % AT_ONCE == 0:
            yield
    return [one for node, some in missed.items() if len(some) * 100 > percentage * mine[node] for one in some]

"""The reconciliation of a streams group's member with its target: it first revokes tasks, then gets free tasks (KIP-1071).

Pure functions of one member. The tables of its states are in `states`. A process never runs a task twice: a member gets an active
task only when no other member has it and its process has no copy of it, and a copy only when its process does not have the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from ottla.coord.consumer.states import Hindrance, NextAssignment
from ottla.coord.streams.member import NOTHING_HELD, AssignedTasks, StreamsMember, TaskEpochs
from ottla.coord.streams.states import MOVES, NEXT
from ottla.coord.streams.values import TaskIds, TaskSets

NO_PARTITIONS: frozenset[int] = frozenset()
NOT_HELD: Mapping[int, int] = {}

IsTaken = Callable[[str, int], bool]
"""A function of a task that returns whether a member cannot get the task yet."""


class TaskTarget(NamedTuple):
    """A member's target assignment, and its epoch."""

    epoch: int
    tasks: TaskSets


class TaskSurroundings(NamedTuple):
    """The data about a group that the reconciliation of one of its members uses.

    `owned` are the tasks that the member reports, or None without a report.
    """

    is_active_taken: IsTaken
    is_copy_taken: IsTaken
    owned: TaskSets | None


def must_begin_anew(member: StreamsMember, around: TaskSurroundings) -> bool:
    """Return whether a member with an unknown stored state must rejoin, because it possibly owns tasks."""
    unknown = MOVES[member.state] is NextAssignment.WHEN_NOTHING_IS_OWNED
    return unknown and (around.owned is None or any(around.owned))


def reconcile(member: StreamsMember, target: TaskTarget, around: TaskSurroundings) -> StreamsMember:
    """Return the member after one step toward its target assignment; the same object if no step is possible now."""
    move = MOVES[member.state]
    if move is NextAssignment.WHEN_THE_TARGET_IS_NEW and member.epoch == target.epoch:
        return member
    if move is NextAssignment.WHEN_ALL_IS_REVOKED:
        if _still_owns(member.revoking, around.owned):
            return member
        return _next(member, member.epoch + 1, target, around)
    return _next(member, target.epoch if move is NextAssignment.WHEN_NOTHING_IS_OWNED else member.epoch, target, around)


def _still_owns(revoking: AssignedTasks, owned: TaskSets | None) -> bool:
    """Return whether a member still owns tasks of `revoking`. An unknown `owned` (None) counts as owning them."""
    if owned is None:
        return True
    kinds: tuple[tuple[Mapping[str, Mapping[int, int] | AbstractSet[int]], TaskIds], ...] = (
        (revoking.active, owned.active),
        (revoking.standby, owned.standby),
        (revoking.warmup, owned.warmup),
    )
    return any(
        not partitions.isdisjoint(asked.get(subtopology_id, ()))
        for asked, reported in kinds
        for subtopology_id, partitions in reported.items()
    )


def _next(member: StreamsMember, epoch: int, target: TaskTarget, around: TaskSurroundings) -> StreamsMember:
    """Return the member after a step toward `target`. If it must revoke tasks first, it has the given `epoch`."""
    active = _compare_active(member.assigned.active, target.tasks.active, target.epoch, around.is_active_taken)
    standby = _compare(member.assigned.standby, target.tasks.standby, around.is_copy_taken)
    warmup = _compare(member.assigned.warmup, target.tasks.warmup, around.is_copy_taken)
    revoking = AssignedTasks(active.revoking, standby.revoking, warmup.revoking)
    if any(revoking) and _still_owns(revoking, around.owned):
        kept = AssignedTasks(active.kept, standby.kept, warmup.kept)
        state = NEXT[Hindrance.MUST_REVOKE]
        return replace(member, epoch=epoch, previous_epoch=member.epoch, state=state, assigned=kept, revoking=revoking)
    given = AssignedTasks(active.given, standby.given, warmup.given)
    state = NEXT[Hindrance.MUST_WAIT if active.must_wait or standby.must_wait or warmup.must_wait else Hindrance.NOTHING]
    return replace(member, epoch=target.epoch, previous_epoch=member.epoch, state=state, assigned=given, revoking=NOTHING_HELD)


class ComparedActive(NamedTuple):
    """The active tasks of a member beside its target. `given` are those that it has after it has revoked the others."""

    kept: TaskEpochs
    revoking: TaskEpochs
    given: TaskEpochs
    must_wait: bool


class ComparedCopies(NamedTuple):
    """The standby or warm-up tasks of a member beside its target."""

    kept: TaskIds
    revoking: TaskIds
    given: TaskIds
    must_wait: bool


def _compare_active(held: TaskEpochs, wanted: TaskIds, epoch: int, is_taken: IsTaken) -> ComparedActive:
    kept: dict[str, Mapping[int, int]] = {}
    revoking: dict[str, Mapping[int, int]] = {}
    given: dict[str, Mapping[int, int]] = {}
    must_wait = False
    for name in dict.fromkeys((*wanted, *held)):
        has, wants = held.get(name, NOT_HELD), wanted.get(name, NO_PARTITIONS)
        stays = {partition: since for partition, since in has.items() if partition in wants}
        free = [partition for partition in sorted(wants - stays.keys()) if not is_taken(name, partition)]
        must_wait = must_wait or len(stays) + len(free) < len(wants)
        for kind, tasks in (
            (kept, stays),
            (revoking, {partition: since for partition, since in has.items() if partition not in wants}),
            (given, {**stays, **dict.fromkeys(free, epoch)}),
        ):
            if tasks:
                kind[name] = tasks
    return ComparedActive(kept, revoking, given, must_wait)


def _compare(held: TaskIds, wanted: TaskIds, is_taken: IsTaken) -> ComparedCopies:
    kept: dict[str, frozenset[int]] = {}
    revoking: dict[str, frozenset[int]] = {}
    given: dict[str, frozenset[int]] = {}
    must_wait = False
    for name in dict.fromkeys((*wanted, *held)):
        has, wants = held.get(name, NO_PARTITIONS), wanted.get(name, NO_PARTITIONS)
        stays = has & wants
        free = {partition for partition in wants - stays if not is_taken(name, partition)}
        must_wait = must_wait or len(stays) + len(free) < len(wants)
        for kind, tasks in ((kept, stays), (revoking, has - wants), (given, stays | free)):
            if tasks:
                kind[name] = tasks
    return ComparedCopies(kept, revoking, given, must_wait)

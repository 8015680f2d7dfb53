"""The reconciliation of a member with its target: it first revokes partitions, then gets free partitions (KIP-848).

Pure functions of one member. The tables of its states are in `states`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.checks import Owned
from ottla.coord.consumer.member import ConsumerMember, Epochs
from ottla.coord.consumer.states import MOVES, NEXT, Hindrance, NextAssignment
from ottla.wire.schema import Uuid

NONE_OF_IT: Mapping[int, int] = {}


class Target(NamedTuple):
    """A member's target assignment, and its epoch."""

    epoch: int
    partitions: Partitions


class Surroundings(NamedTuple):
    """The data about a group that the reconciliation of one of its members uses.

    `taken` returns the partitions of a topic that any member has or must still revoke. `subscribes` returns whether the member
    subscribes to a topic. `owned` are the partitions that the member reports, or None without a report. `changed`: this request
    changes the member's subscription.
    """

    taken: Callable[[Uuid], AbstractSet[int]]
    subscribes: Callable[[Uuid], bool]
    owned: Owned | None
    changed: bool


def must_begin_anew(member: ConsumerMember, around: Surroundings) -> bool:
    """Return whether a member with an unknown stored state must rejoin, because it possibly owns partitions."""
    return MOVES[member.state] is NextAssignment.WHEN_NOTHING_IS_OWNED and (around.owned is None or bool(around.owned))


def reconcile(member: ConsumerMember, target: Target, around: Surroundings) -> ConsumerMember:
    """Return the member after one step toward its target assignment; the same object if no step is possible now."""
    move = MOVES[member.state]
    if move is NextAssignment.WHEN_THE_TARGET_IS_NEW and member.epoch == target.epoch:
        return _without_unwanted(member, around) if around.changed else member
    if move is NextAssignment.WHEN_ALL_IS_REVOKED and _still_owns(member.revoking, around.owned):
        return _without_unwanted(member, around) if around.changed else member
    return _next(member, target, around)


def _still_owns(revoking: Epochs, owned: Owned | None) -> bool:
    """Return whether a member still owns partitions of `revoking`. An unknown `owned` (None) counts as owning them."""
    if owned is None:
        return True
    return any(not revoking.get(topic_id, {}).keys().isdisjoint(partitions) for topic_id, partitions in owned.items())


def _without_unwanted(member: ConsumerMember, around: Surroundings) -> ConsumerMember:
    """Return the member without topics to which it no longer subscribes. It must revoke their partitions at once."""
    unwanted = {topic_id: held for topic_id, held in member.assigned.items() if not around.subscribes(topic_id)}
    if not unwanted:
        return member
    assigned = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in unwanted}
    revoking = dict(member.revoking)
    for topic_id, held in unwanted.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **held}
    if not _still_owns(revoking, around.owned):
        return replace(member, previous_epoch=member.epoch, assigned=assigned)
    state = NEXT[Hindrance.MUST_REVOKE]
    return replace(member, previous_epoch=member.epoch, state=state, assigned=assigned, revoking=revoking)


def _next(member: ConsumerMember, target: Target, around: Surroundings) -> ConsumerMember:
    kept: dict[Uuid, Mapping[int, int]] = {}
    revoking: dict[Uuid, Mapping[int, int]] = {}
    given: dict[Uuid, Mapping[int, int]] = {}
    must_wait = False
    for topic_id in dict.fromkeys((*target.partitions, *member.assigned)):
        held = member.assigned.get(topic_id, NONE_OF_IT)
        wanted = target.partitions.get(topic_id, frozenset()) if around.subscribes(topic_id) else frozenset()
        stays = {partition: epoch for partition, epoch in held.items() if partition in wanted}
        own = member.revoking.get(topic_id, NONE_OF_IT)
        free = sorted((wanted - stays.keys()) - (around.taken(topic_id) - own.keys()))
        must_wait = must_wait or len(stays) + len(free) < len(wanted)
        _put(kept, topic_id, stays)
        _put(revoking, topic_id, {partition: epoch for partition, epoch in held.items() if partition not in wanted})
        _put(given, topic_id, {**stays, **dict.fromkeys(free, target.epoch)})
    if revoking and _still_owns(revoking, around.owned):
        state = NEXT[Hindrance.MUST_REVOKE]
        return replace(member, previous_epoch=member.epoch, state=state, assigned=kept, revoking=revoking)
    state = NEXT[Hindrance.MUST_WAIT if must_wait else Hindrance.NOTHING]
    return replace(member, epoch=target.epoch, previous_epoch=member.epoch, state=state, assigned=given, revoking={})


def _put(held: dict[Uuid, Mapping[int, int]], topic_id: Uuid, partitions: Mapping[int, int]) -> None:
    if partitions:
        held[topic_id] = partitions

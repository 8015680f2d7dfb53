"""The assignment strategies of a group's leader: range, round robin, sticky and cooperative sticky (KIP-429).

The functions are pure, and their results do not depend on the order in which members join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ottla.client.arguments import check_mapping, places
from ottla.client.errors import SettingError
from ottla.client.types import TopicPartition

NO_GENERATION = -1


class MemberSubscription(NamedTuple):
    """A member's topics, and the partitions that it owned in the previous generation."""

    topics: list[str]
    owned: list[TopicPartition]
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None
    state: bytes = b""
    """The state that the member received with its previous assignment by an `PartitionAssignor`."""


Assignment = dict[str, list[TopicPartition]]
"""member id -> its partitions"""
Assign = Callable[[Mapping[str, MemberSubscription], Mapping[str, int]], Assignment]
"""(member id -> subscription, topic -> number of partitions) -> assignment of every member"""


def _sort(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return the members in a lasting order: static ones first, by instance id, so that a restart does not change it."""
    return sorted(
        members, key=lambda member: (members[member].group_instance_id is None, members[member].group_instance_id or member, member)
    )


def _by_topic(members: Mapping[str, MemberSubscription]) -> dict[str, list[str]]:
    wanting: dict[str, list[str]] = defaultdict(list)
    for member in _sort(members):
        for topic in set(members[member].topics):
            wanting[topic].append(member)
    return wanting


def assign_range(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Assign each topic's partitions in ranges of consecutive partitions.

    If the division leaves a remainder, the first members get one partition more.
    """
    given: Assignment = {member: [] for member in members}
    for topic, wanting in sorted(_by_topic(members).items()):
        share, extra = divmod(counts.get(topic, 0), len(wanting))
        start = 0
        for index, member in enumerate(wanting):
            end = start + share + (index < extra)
            given[member].extend(TopicPartition(topic, partition) for partition in range(start, end))
            start = end
    return given


def assign_round_robin(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Assign the partitions of all topics one after the other, each to the next member in turn that subscribes to its topic."""
    given: Assignment = {member: [] for member in members}
    order = _sort(members)
    turn = 0
    for topic in sorted(_by_topic(members)):
        for partition in range(counts.get(topic, 0)):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            given[order[turn % len(order)]].append(TopicPartition(topic, partition))
            turn += 1
    return given


def _still_owned(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> dict[TopicPartition, str]:
    """Return the present owner of each partition.

    If several members claim a partition, the member of the latest generation owns it.
    """
    owners: dict[TopicPartition, str] = {}
    for member in sorted(_sort(members), key=lambda member: members[member].generation_id):
        subscription = members[member]
        for where in subscription.owned:
            if where.topic in subscription.topics and where.partition < counts.get(where.topic, 0):
                owners[where] = member
    return owners


def assign_sticky(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Assign partitions as evenly as subscriptions allow, and move as few as possible from their owners."""
    owners = _still_owned(members, counts)
    given: Assignment = {member: [] for member in members}
    for where in sorted(owners):
        given[owners[where]].append(where)
    wanting = _by_topic(members)
    free = [
        TopicPartition(topic, partition)
        for topic in wanting
        for partition in range(counts.get(topic, 0))
        if (topic, partition) not in owners
    ]
    # Topics with few subscribers go first, because the assignment of later topics can still even out the imbalance.
    for where in sorted(free, key=lambda where: (len(wanting[where.topic]), where)):
        given[min(wanting[where.topic], key=lambda member: len(given[member]))].append(where)
    _level(given, wanting)
    return {member: sorted(partitions) for member, partitions in given.items()}


def _level(given: Assignment, wanting: Mapping[str, Sequence[str]]) -> None:
    """Move partitions from members to subscribers with at least two fewer partitions, until no such move is left."""
    while (move := _next_move(given, wanting)) is not None:
        where, member, poorest = move
        given[member].remove(where)
        given[poorest].append(where)


def _next_move(given: Assignment, wanting: Mapping[str, Sequence[str]]) -> tuple[TopicPartition, str, str] | None:
    for member in sorted(given, key=lambda member: -len(given[member])):
        for where in reversed(given[member]):
            poorest = min(wanting[where.topic], key=lambda other: len(given[other]))
            if len(given[member]) - len(given[poorest]) > 1:
                return where, member, poorest
    return None


def assign_cooperative_sticky(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Assign as the sticky strategy does, but leave a partition that changes its owner unassigned in this generation.

    The next generation assigns it, after its owner has revoked it and rejoined (KIP-429).
    """
    owners = _still_owned(members, counts)
    target = assign_sticky(members, counts)
    return {member: [where for where in partitions if owners.get(where, member) == member] for member, partitions in target.items()}


class StatefulShare(NamedTuple):
    """A member's partitions, and the state that it receives with them."""

    partitions: list[TopicPartition]
    state: bytes = b""


OwnShare = Iterable[tuple[str, int]] | tuple[Iterable[tuple[str, int]], bytes]


class AssignmentStrategy(NamedTuple):
    """An assignment function. `cooperative` means that members keep their partitions while they rejoin."""

    assign: Assign
    cooperative: bool = False


@dataclass(frozen=True)
class PartitionAssignor:
    """A user's assignment strategy, for `partition_assignment_strategy`. All members of the group must offer one of this name.

    The group's leader calls `assign(members, counts)` on its client's thread: `members` maps member ids to a `MemberSubscription`,
    `counts` topics to their number of partitions. It returns the partitions of each member, or a pair of them and bytes, the state
    that the member receives, and shows as `state` in the next call. With `cooperative`, members keep their partitions while they
    rejoin, and a partition that moves is assigned one generation later (KIP-429).
    """

    name: str
    assign: Callable[[Mapping[str, MemberSubscription], Mapping[str, int]], Mapping[str, OwnShare]]
    cooperative: bool = False

    def share_out(self, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> dict[str, StatefulShare]:
        """Return each member's partitions and state. Raises exceptions of `assign`, and `SettingError` for a wrong result."""
        shares = {}
        given: set[TopicPartition] = set()
        for member, share in check_mapping(f"The result of assignor {self.name}", self.assign(members, counts)).items():
            partitions, state = (
                share if isinstance(share, tuple) and len(share) == 2 and isinstance(share[1], bytes) else (share, b"")
            )
            self._check(member, where := places(partitions), members, counts)
            if not given.isdisjoint(where) or len(set(where)) < len(where):
                raise SettingError(f"Assignor {self.name} assigned a partition twice: assign each to one member.")
            given.update(where)
            shares[member] = StatefulShare(where, state)
        owners = _still_owned(members, counts) if self.cooperative else {}
        return {
            member: StatefulShare([where for where in share.partitions if owners.get(where, member) == member], share.state)
            for member, share in ((member, shares.get(member, StatefulShare([]))) for member in members)
        }

    def _check(
        self, member: str, partitions: list[TopicPartition], members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> None:
        if member not in members:
            raise SettingError(f"Assignor {self.name} assigned partitions to {member!r}, which is not among the members it got.")
        for where in partitions:
            if where.topic not in members[member].topics or where.partition >= counts.get(where.topic, 0):
                raise SettingError(
                    f"Assignor {self.name} assigned {where.topic}-{where.partition} to a member that has not subscribed to it, "
                    "or it does not exist."
                )


STRATEGIES: dict[str, AssignmentStrategy] = {
    "range": AssignmentStrategy(assign_range),
    "roundrobin": AssignmentStrategy(assign_round_robin),
    "sticky": AssignmentStrategy(assign_sticky),
    "cooperative-sticky": AssignmentStrategy(assign_cooperative_sticky, cooperative=True),
}
"""The strategies, by the protocol names on which the members of a group agree."""
StrategyName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
assert set(STRATEGIES) == set(get_args(StrategyName))

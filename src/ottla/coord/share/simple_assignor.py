"""The assignor `simple` of share groups (KIP-932), which can assign one partition to several members.

It balances first, then keeps assignments. Without more members than partitions, each partition has one member. Otherwise each
partition has about as many members as any other, and each member at most one partition more than any other. If members have
different subscriptions, each topic is balanced separately. The module is a pure function of subscriptions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Partitions, Subscriber, finish
from ottla.ports import Pauses
from ottla.wire.schema import Uuid

SIMPLE: Final = "simple"

LISTED_BETWEEN_PAUSES: Final = 5_000
"""The number of partitions that are listed between two pauses."""

Place = tuple[Uuid, int]
"""A partition of a topic."""


class _Shares(NamedTuple):
    """One balanced set: its partitions by topic and in a fixed order, and the member ids that share them, in a fixed order."""

    topics: Mapping[Uuid, frozenset[int]]
    places: Sequence[Place]
    members: Sequence[str]


def assign(subscribers: Mapping[str, Subscriber], assignable: Mapping[Uuid, frozenset[int]]) -> dict[str, Partitions]:
    """Return the target assignment of every member, by its id.

    `assignable` are the partitions whose state is initialized, of the topics that exist. A member whose partitions stay has the
    same object as in `owned`.
    """
    return finish(assign_slowly(subscribers, assignable))


def assign_slowly(
    subscribers: Mapping[str, Subscriber], assignable: Mapping[Uuid, frozenset[int]]
) -> Pauses[dict[str, Partitions]]:
    """Return the result of `assign`, but pause between parts of the work."""
    held: dict[str, set[Place]] = {member_id: set() for member_id in subscribers}
    for shares in (yield from _balanced_sets(subscribers, assignable)):
        yield from _Balance(shares, subscribers, held).run()
    assigned: dict[str, Partitions] = {}
    work = 0
    for member_id, subscriber in subscribers.items():
        assigned[member_id] = _partitions(held[member_id], subscriber.owned)
        work += 1 + len(held[member_id])
        if work >= LISTED_BETWEEN_PAUSES // 5:
            work = 0
            yield None
    return assigned


def _balanced_sets(subscribers: Mapping[str, Subscriber], assignable: Mapping[Uuid, frozenset[int]]) -> Pauses[list[_Shares]]:
    """Return all partitions as one set if all members have the same subscription, else one set for each topic."""
    members = sorted(subscribers)
    subscriptions = {subscriber.topic_ids for subscriber in subscribers.values()}
    topic_ids = sorted({topic_id for topics in subscriptions for topic_id in topics if topic_id in assignable})
    sets: list[_Shares] = []
    every: list[Place] = []
    for topic_id in topic_ids:
        places: list[Place] = []
        numbers = sorted(assignable[topic_id])
        for at in range(0, len(numbers), LISTED_BETWEEN_PAUSES):
            places += [(topic_id, number) for number in numbers[at : at + LISTED_BETWEEN_PAUSES]]
            yield None
        every += places
        if len(subscriptions) > 1:
            wanting = [member_id for member_id in members if topic_id in subscribers[member_id].topic_ids]
            sets.append(_Shares({topic_id: assignable[topic_id]}, places, wanting))
    if len(subscriptions) == 1:
        sets = [_Shares({topic_id: assignable[topic_id] for topic_id in topic_ids}, every, members)]
    return sets


def _partitions(places: set[Place], owned: Partitions) -> Partitions:
    by_topic: dict[Uuid, set[int]] = {}
    for topic_id, number in places:
        by_topic.setdefault(topic_id, set()).add(number)
    partitions = {topic_id: frozenset(numbers) for topic_id, numbers in by_topic.items()}
    return owned if partitions == owned else partitions


class _Balance:
    """The assignment of one set of places, which fills `held`: first what members keep, then what is left."""

    def __init__(self, shares: _Shares, subscribers: Mapping[str, Subscriber], held: dict[str, set[Place]]) -> None:
        _, places, members = shares
        self._shares, self._subscribers, self._held = shares, subscribers, held
        self._sharing = -(-len(members) // len(places)) if places else 0
        total = self._sharing * len(places)
        self._room = {id_: -(-total * (at + 1) // len(members)) + -total * at // len(members) for at, id_ in enumerate(members)}
        """How many more places each member gets."""
        self._holders: Counter[Place] = Counter()

    def run(self) -> Pauses[None]:
        yield from self._keep()
        yield from self._fill()

    def _keep(self) -> Pauses[None]:
        """Let members keep the places that they own, up to their number of places, and up to the sharing of each place."""
        work = 0
        for member_id in self._shares.members:
            for topic_id, numbers in self._subscribers[member_id].owned.items():
                for number in sorted(numbers & self._shares.topics.get(topic_id, frozenset())):
                    place = topic_id, number
                    if self._room[member_id] > 0 and self._holders[place] < self._sharing:
                        self._assign(place, member_id)
                    work += 1
                    if work % BETWEEN_PAUSES == 0:
                        yield None

    def _fill(self) -> Pauses[None]:
        """Give each place to members in turn until it has enough of them.

        A member that has the place already is passed over. If all members with room have it, the place keeps fewer members.
        """
        waiting = deque(member_id for member_id in self._shares.members if self._room[member_id] > 0)
        for count, place in enumerate(self._shares.places, 1):
            passed: list[str] = []
            while waiting and self._holders[place] < self._sharing:
                member_id = waiting.popleft()
                if place in self._held[member_id]:
                    passed.append(member_id)
                    continue
                self._assign(place, member_id)
                if self._room[member_id] > 0:
                    waiting.append(member_id)
            waiting.extendleft(reversed(passed))
            if count % BETWEEN_PAUSES == 0:
                yield None

    def _assign(self, place: Place, member_id: str) -> None:
        self._held[member_id].add(place)
        self._holders[place] += 1
        self._room[member_id] -= 1

"""The assignor `uniform`: members' numbers of partitions differ by at most one, and as few partitions as possible change members.

If members subscribe to different topics (`ottla.coord.consumer.assign.uneven`), shares are as even as possible. Within these two
rules, members get partitions with replicas in their own rack.

A partition that changes its member gets a member in a replica's rack, where fetching is cheaper, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Partitions, Subscriber, TopicShape, finish
from ottla.coord.consumer.assign.draft import AssignablePartition, AssignmentDraft, spread
from ottla.coord.consumer.assign.uneven import level
from ottla.ports import Pauses
from ottla.wire.schema import Uuid

MOST_LOOKS = 64
"""The most candidates that are tried for a swap with one partition, if members subscribe to different topics."""

BETWEEN_EXCHANGES = 10
"""The number of partitions between two pauses. It is small, because each partition is compared with many others."""


class RackPlace(NamedTuple):
    """The rack of the member that has a partition, and the racks of its replicas.

    Partitions with equal values are interchangeable.
    """

    rack: str
    replicas: frozenset[str]

    @property
    def fits(self) -> bool:
        return self.rack in self.replicas


Moved = tuple[str, AssignablePartition]


def _prefer_racks(draft: AssignmentDraft) -> Pauses[None]:
    """Swap pairs of partitions that are new to their members, if more of both then have a replica in their member's rack."""
    places: dict[RackPlace, list[Moved]] = {}
    for count, (member_id, partition, place) in enumerate(_find_moved(draft)):
        places.setdefault(place, []).append((member_id, partition))
        if count % BETWEEN_PAUSES == 0:
            yield None
    for place in sorted(places, key=_order):
        if place.fits:
            continue
        stays = []
        for count, moved in enumerate(places[place]):
            if not _exchanged(draft, places, place, moved):
                stays.append(moved)
            if count % BETWEEN_EXCHANGES == 0:
                yield None
        places[place] = stays


def _find_moved(draft: AssignmentDraft) -> Iterator[tuple[str, AssignablePartition, RackPlace]]:
    """Yield every partition that is new to its member, if the member's rack and the replicas' racks are known."""
    known = [topic_id for topic_id in draft.free if draft.topics[topic_id].racks]
    for member_id in draft.members if known else ():
        rack = draft.subscribers[member_id].rack_id
        if rack is None:
            continue
        held = draft.partitions_of(member_id)
        if held is draft.subscribers[member_id].owned:
            continue
        for topic_id in known:
            replicas = draft.topics[topic_id].racks
            for index in sorted(held.get(topic_id, ())):
                partition = AssignablePartition(topic_id, index)
                if index < len(replicas) and replicas[index] and not draft.owned(member_id, partition):
                    yield member_id, partition, RackPlace(rack, replicas[index])


def _exchanged(draft: AssignmentDraft, places: dict[RackPlace, list[Moved]], place: RackPlace, moved: Moved) -> bool:
    """Swap the partition in `moved` with another one if that improves the racks, and return whether it was swapped."""
    for other in sorted(places, key=_order):
        if other.rack not in place.replicas or (other.fits and place.rack not in other.replicas):
            continue
        position = _partner(draft, places[other], moved)
        if position is not None:
            partner = places[other].pop(position)
            _exchange(draft, moved, partner)
            places.setdefault(RackPlace(other.rack, place.replicas), []).append((partner[0], moved[1]))
            places.setdefault(RackPlace(place.rack, other.replicas), []).append((moved[0], partner[1]))
            return True
    return False


def _partner(draft: AssignmentDraft, candidates: list[Moved], moved: Moved) -> int | None:
    """Return the index of the last candidate that can be swapped with the partition in `moved`; None if there is none."""
    member_id, partition = moved
    for position in range(len(candidates) - 1, max(-1, len(candidates) - 1 - MOST_LOOKS), -1):
        other_id, other = candidates[position]
        if _may_have(draft, other_id, partition) and _may_have(draft, member_id, other):
            return position
    return None


def _may_have(draft: AssignmentDraft, member_id: str, partition: AssignablePartition) -> bool:
    return partition.topic_id in draft.subscribers[member_id].topic_ids


def _exchange(draft: AssignmentDraft, one: Moved, other: Moved) -> None:
    for member_id, partition in (one, other):
        draft.unassign(member_id, partition)
    draft.assign(one[0], other[1])
    draft.assign(other[0], one[1])


def _order(place: RackPlace) -> tuple[str, list[str]]:
    return place.rack, sorted(place.replicas)


class UniformAssignor:
    name = "uniform"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        return finish(self.assign_slowly(subscribers, topics))

    def assign_slowly(
        self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
    ) -> Pauses[Mapping[str, Partitions]]:
        """Return the result of `assign`, but pause between parts of the work."""
        if not subscribers:
            return {}
        draft = AssignmentDraft(subscribers, topics)
        yield from draft.keep()
        if len({subscriber.topic_ids for subscriber in subscribers.values()}) == 1:
            claims = yield from _claims(draft)
            yield from _fill(draft, claims)
        else:
            yield from level(draft)
        yield from _prefer_racks(draft)
        return (yield from draft.result())


def _claims(draft: AssignmentDraft) -> Pauses[dict[str, int]]:
    """Take from members the partitions above their fair shares. Return how many more partitions each other member must get.

    If the division leaves a remainder, the members with the most partitions get one partition more.
    """
    least, extra = divmod(draft.total, len(draft.members))
    sizes = draft.sizes
    for member_id in [member_id for member_id, size in sizes.items() if size > least]:
        fair = least + (extra > 0)
        extra -= extra > 0
        yield from _free(draft, member_id, sizes[member_id] - fair)
    yield None
    claims = {}
    for member_id, size in sizes.items():
        if size <= least:
            claim = least + (extra > 0) - size
            extra -= extra > 0
            if claim:
                claims[member_id] = claim
    yield None
    return claims


def _free(draft: AssignmentDraft, member_id: str, count: int) -> Pauses[None]:
    """Free `count` of a member's partitions, so that the rest is spread evenly over topics."""
    if count:
        stays = draft.sizes[member_id] - count
        for position, partition in enumerate(spread(draft.partitions_of(member_id))):
            if position >= stays:
                draft.unassign(member_id, partition)
            if position % BETWEEN_PAUSES == BETWEEN_PAUSES - 1:
                yield None


def _fill(draft: AssignmentDraft, claims: dict[str, int]) -> Pauses[None]:
    """Assign the free partitions round-robin, so that each topic is spread over many members."""
    for given, (member_id, partition) in enumerate(zip(_turns(claims), draft.free_partitions(), strict=True)):
        draft.assign(member_id, partition)
        if given % BETWEEN_PAUSES == 0:
            yield None


def _turns(claims: dict[str, int]) -> Iterator[str]:
    """Yield member ids round-robin, each as often as its number in `claims` says.

    The first round has the members with a number of at least 1, the second round those with at least 2, and so on.
    """
    members = list(claims)
    turn = 0
    while members:
        yield from members
        turn += 1
        members = [member_id for member_id in members if claims[member_id] > turn]

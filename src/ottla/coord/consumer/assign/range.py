"""The assignor `range`: each subscriber gets consecutive partitions of each topic, in the order of member ids.

Topics with the same number of partitions and the same subscribers are co-partitioned: a member gets the same partition numbers of
all of them. Owned partitions are ignored. Static members come first, ordered by instance id, so that a restart does not change
their assignments.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Partitions, Subscriber, TopicShape, finish
from ottla.ports import Pauses
from ottla.wire.schema import Uuid


class RangeAssignor:
    name = "range"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """Return the assignment. If a topic does not divide evenly, the first members get one partition more."""
        return finish(self.assign_slowly(subscribers, topics))

    def assign_slowly(
        self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]
    ) -> Pauses[Mapping[str, Partitions]]:
        """Return the result of `assign`, but pause between parts of the work."""
        ranks: dict[str, tuple[bool, bytes, bytes]] = {}
        for member_id, subscriber in subscribers.items():
            ranks[member_id] = _rank(member_id, subscriber)
            if len(ranks) % BETWEEN_PAUSES == 0:
                yield None
        subscribed: dict[Uuid, list[str]] = {}
        work = 0
        for member_id in sorted(subscribers, key=ranks.__getitem__):
            for topic_id in subscribers[member_id].topic_ids:
                subscribed.setdefault(topic_id, []).append(member_id)
                work += 1
                if work % BETWEEN_PAUSES == 0:
                    yield None
        assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in subscribers}
        for topic_id in sorted(subscribed.keys() & topics.keys()):
            yield from _share(topic_id, topics[topic_id].partitions, subscribed[topic_id], assigned)
        known: dict[str, Partitions] = {}
        for member_id, partitions in assigned.items():
            known[member_id] = _owned_of(subscribers[member_id].owned, partitions)
            if len(known) % BETWEEN_PAUSES == 0:
                yield None
        return known


def _rank(member_id: str, subscriber: Subscriber) -> tuple[bool, bytes, bytes]:
    """Return a member's sort key: static members first. Strings are in the order of their UTF-16 units, as in Java."""
    static = subscriber.instance_id is not None
    return not static, _utf16(subscriber.instance_id or ""), _utf16(member_id)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _share(topic_id: Uuid, partitions: int, members: list[str], assigned: dict[str, dict[Uuid, frozenset[int]]]) -> Pauses[None]:
    least, extra = divmod(partitions, len(members))
    first = 0
    for position, member_id in enumerate(members):
        count = least + (position < extra)
        if not count:
            return
        assigned[member_id][topic_id] = frozenset(range(first, first + count))
        first += count
        if position % BETWEEN_PAUSES == 0:
            yield None


def _owned_of(owned: Partitions, partitions: Partitions) -> Partitions:
    return owned if owned == partitions else partitions

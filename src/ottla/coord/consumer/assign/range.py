"""The assignor `range`: a run of neighbouring partitions of each topic for each subscriber, in the order of their ids.

Topics with equally many partitions and the same subscribers are co-partitioned: a member has the same numbers of each. What
members owned before plays no part. Static members come first, ordered by instance id, so that their restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coord.consumer.assign import Partitions, Subscriber, TopicShape
from ottla.wire.schema import Uuid


class RangeAssignor:
    """See the module."""

    name = "range"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """See `Assignor`. The first members get the partitions that are left over, one each."""
        members = sorted(subscribers, key=lambda member_id: _rank(member_id, subscribers[member_id]))
        subscribed: dict[Uuid, list[str]] = {}
        for member_id in members:
            for topic_id in subscribers[member_id].topic_ids:
                subscribed.setdefault(topic_id, []).append(member_id)
        assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in subscribers}
        for topic_id in sorted(subscribed.keys() & topics.keys()):
            _share(topic_id, topics[topic_id].partitions, subscribed[topic_id], assigned)
        return {member_id: _known(subscribers[member_id].owned, partitions) for member_id, partitions in assigned.items()}


def _rank(member_id: str, subscriber: Subscriber) -> tuple[bool, bytes, bytes]:
    """Static members first. Java, and so Kafka, orders strings by UTF-16 units."""
    static = subscriber.instance_id is not None
    return not static, _utf16(subscriber.instance_id or ""), _utf16(member_id)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _share(topic_id: Uuid, partitions: int, members: list[str], assigned: dict[str, dict[Uuid, frozenset[int]]]) -> None:
    least, extra = divmod(partitions, len(members))
    first = 0
    for position, member_id in enumerate(members):
        count = least + (position < extra)
        if not count:
            return
        assigned[member_id][topic_id] = frozenset(range(first, first + count))
        first += count


def _known(owned: Partitions, partitions: Partitions) -> Partitions:
    return owned if owned == partitions else partitions

"""A draft of an assignment: the partitions of each member so far, and the free partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Partitions, Subscriber, TopicShape
from ottla.ports import Pauses
from ottla.wire.schema import Uuid


class AssignablePartition(NamedTuple):
    """One partition of one topic."""

    topic_id: Uuid
    number: int


class AssignmentDraft:
    """An assignment that an assignor is computing: the partitions of each member, and the partitions without a member.

    First, `keep` assigns each member's owned partitions to it, if it subscribes to their topic and no other member has them.
    """

    def __init__(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> None:
        self.members = sorted(subscribers)
        self.subscribers = subscribers
        self.topics = topics
        self.free: dict[Uuid, set[int]] = {}
        self.total = 0
        self.sizes = dict.fromkeys(self.members, 0)
        self._assigned: dict[str, Partitions] = {}
        self._changed: dict[str, dict[Uuid, set[int]]] = {}

    def keep(self) -> Pauses[None]:
        """Assign to each member the partitions that it owns. All other partitions stay without a member."""
        wanted: set[Uuid] = set()
        for topic_ids in {subscriber.topic_ids for subscriber in self.subscribers.values()}:
            wanted |= topic_ids
        for topic_id in sorted(wanted & self.topics.keys()):
            self.free[topic_id] = set(range(self.topics[topic_id].partitions))
            self.total += len(self.free[topic_id])
            yield None
        for member_id in self.members:
            owned = self.subscribers[member_id].owned
            self._assigned[member_id] = self._keep_partitions(member_id, owned) if owned else owned
            if len(self._assigned) % BETWEEN_PAUSES == 0:
                yield None

    def partitions_of(self, member_id: str) -> Mapping[Uuid, frozenset[int] | set[int]]:
        """Return a member's current partitions in this draft. Callers must not change them."""
        changed = self._changed.get(member_id)
        return self._assigned[member_id] if changed is None else changed

    def owned(self, member_id: str, partition: AssignablePartition) -> bool:
        """Return whether a member owned the partition before the assignment."""
        return partition.number in self.subscribers[member_id].owned.get(partition.topic_id, ())

    def assign(self, member_id: str, partition: AssignablePartition) -> None:
        """Assign a partition that no member has to this member."""
        self._own(member_id).setdefault(partition.topic_id, set()).add(partition.number)
        self.free[partition.topic_id].discard(partition.number)
        self.sizes[member_id] += 1

    def unassign(self, member_id: str, partition: AssignablePartition) -> None:
        """Take a partition away from the member that has it. No member has the partition then."""
        self._own(member_id)[partition.topic_id].remove(partition.number)
        self.free[partition.topic_id].add(partition.number)
        self.sizes[member_id] -= 1

    def free_partitions(self) -> Iterator[AssignablePartition]:
        """Yield the free partitions, by topic and number."""
        for topic_id, indexes in self.free.items():
            for index in sorted(indexes):
                yield AssignablePartition(topic_id, index)

    def result(self) -> Pauses[dict[str, Partitions]]:
        """Return the assignment, in the format of `Assignor.assign`."""
        while self._changed:
            member_id, changed = self._changed.popitem()
            if len(self._changed) % BETWEEN_PAUSES == 0:
                yield None
            partitions = {topic_id: frozenset(indexes) for topic_id, indexes in changed.items() if indexes}
            owned = self.subscribers[member_id].owned
            self._assigned[member_id] = owned if partitions == owned else partitions
        return self._assigned

    def _keep_partitions(self, member_id: str, before: Partitions) -> Partitions:
        """Assign to a member its owned partitions that no other member has, and return them.

        If the member keeps all its partitions, return the object `before`.
        """
        topic_ids = self.subscribers[member_id].topic_ids
        kept: dict[Uuid, frozenset[int]] = {}
        whole = True
        for topic_id, owned in before.items():
            free = self.free.get(topic_id) if topic_id in topic_ids else None
            indexes = owned if free and owned <= free else owned & (free or frozenset())
            if indexes and free:
                kept[topic_id] = indexes
                free -= indexes
                self.sizes[member_id] += len(indexes)
            whole = whole and indexes is owned
        return before if whole else kept

    def _own(self, member_id: str) -> dict[Uuid, set[int]]:
        """Return a member's partitions as a dictionary that can be changed."""
        changed = self._changed.get(member_id)
        if changed is None:
            before = self._assigned[member_id]
            changed = self._changed[member_id] = {topic_id: set(indexes) for topic_id, indexes in before.items()}
        return changed


def spread(held: Mapping[Uuid, Collection[int]]) -> Iterator[AssignablePartition]:
    """Yield partitions in turn from all topics, so that every prefix has about equally many partitions of each topic."""
    topics = [(topic_id, sorted(numbers)) for topic_id, numbers in sorted(held.items())]
    rank = 0
    while topics := [(topic_id, numbers) for topic_id, numbers in topics if rank < len(numbers)]:
        for topic_id, numbers in topics:
            yield AssignablePartition(topic_id, numbers[rank])
        rank += 1

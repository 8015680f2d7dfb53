"""The assignor `uniform` for members that subscribe to different topics: shares as even as the subscriptions allow.

Each free partition goes to the subscriber with the fewest partitions. Then, as long as possible, members with too many partitions
are relieved by chains of members, each of which passes one partition to the next. The last member of a chain has at least two
partitions fewer than the first. When no chain is left, the assignment is as even as possible: an optimal semi-matching of
partitions and members.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise

from ottla.coord.consumer.assign import BETWEEN_PAUSES
from ottla.coord.consumer.assign.draft import AssignablePartition, AssignmentDraft
from ottla.ports import Pauses
from ottla.wire.schema import Uuid

BETWEEN_STEPS = 20
"""The number of steps between two pauses. A step compares many members."""


class SubscriptionClass:
    """All members of a group that subscribe to the same topics. `holders` are, by topic, the members with partitions of the topic.

    If the class is `closed`, moving its members' partitions cannot make the assignment more even.
    """

    def __init__(self, number: int, topic_ids: list[Uuid]) -> None:
        self.number = number
        self.topic_ids = topic_ids
        self.members: list[str] = []
        self.holders: dict[Uuid, dict[str, None]] = {}
        self.closed = False
        self._heap: list[tuple[int, str]] = []

    def fill(self, draft: AssignmentDraft) -> Pauses[None]:
        """Build the index of members by topic: the members that have partitions of each topic."""
        self._heap = [(draft.sizes[member_id], member_id) for member_id in self.members]
        heapify(self._heap)
        yield None
        for count, member_id in enumerate(self.members):
            for topic_id in draft.partitions_of(member_id):
                self.holders.setdefault(topic_id, {})[member_id] = None
            if count % BETWEEN_PAUSES == 0:
                yield None

    def least(self, sizes: dict[str, int]) -> tuple[int, str]:
        """Return the member with the fewest partitions, as (number of partitions, member id)."""
        while (size := sizes[self._heap[0][1]]) != self._heap[0][0]:
            heapreplace(self._heap, (size, self._heap[0][1]))
        return self._heap[0]

    def shrank(self, size: int, member_id: str) -> None:
        """Record that a member has fewer partitions than before."""
        heappush(self._heap, (size, member_id))


class SharedTopic:
    """A topic, and the sets of members with equal subscriptions (`SubscriptionClass`) that subscribe to it."""

    def __init__(self, topic_id: Uuid, classes: list[SubscriptionClass]) -> None:
        self.topic_id = topic_id
        self.classes = classes
        self._numbered = {each.number: each for each in classes}
        self._heap = [(0, each.number) for each in classes]

    def least(self, sizes: dict[str, int]) -> tuple[int, SubscriptionClass]:
        """Return the smallest number of partitions of a subscriber, and the class of this subscriber."""
        while True:
            size, number = self._heap[0]
            now = self._numbered[number].least(sizes)[0]
            if now == size:
                return size, self._numbered[number]
            heapreplace(self._heap, (now, number))

    def shrank(self, size: int, number: int) -> None:
        """Record that a member of the class with this `number` has fewer partitions than before."""
        heappush(self._heap, (size, number))


class Leveller:
    """The algorithm that assigns partitions evenly to members with different subscriptions."""

    def __init__(self, draft: AssignmentDraft) -> None:
        self.draft = draft
        self.class_of: dict[str, SubscriptionClass] = {}
        self.topics: dict[Uuid, SharedTopic] = {}

    def index(self) -> Pauses[None]:
        draft = self.draft
        subscriptions: dict[frozenset[Uuid], SubscriptionClass] = {}
        for count, member_id in enumerate(draft.members):
            if count % BETWEEN_PAUSES == 0:
                yield None
            topic_ids = draft.subscribers[member_id].topic_ids
            found = subscriptions.get(topic_ids)
            if found is None:
                found = subscriptions[topic_ids] = SubscriptionClass(len(subscriptions), sorted(topic_ids & draft.free.keys()))
            found.members.append(member_id)
            self.class_of[member_id] = found
        subscribed: dict[Uuid, list[SubscriptionClass]] = {topic_id: [] for topic_id in draft.free}
        for each in subscriptions.values():
            yield from each.fill(draft)
            for topic_id in each.topic_ids:
                subscribed[topic_id].append(each)
        self.topics = {topic_id: SharedTopic(topic_id, classes) for topic_id, classes in subscribed.items()}

    def hand_out(self) -> Pauses[None]:
        """Assign free partitions to the members with the fewest partitions. Begin with topics that have few subscribers."""
        for topic in sorted(self.topics.values(), key=self._choice):
            for index in sorted(self.draft.free[topic.topic_id]):
                self._assign(topic, AssignablePartition(topic.topic_id, index))
                if index % BETWEEN_STEPS == 0:
                    yield None

    def relieve(self) -> Pauses[None]:
        """Move partitions from the members with the most partitions, as long as this makes the shares more even."""
        sizes = self.draft.sizes
        most = [(-size, member_id) for member_id, size in sizes.items()]
        heapify(most)
        work = 0
        while most:
            if work >= BETWEEN_PAUSES:
                work = 0
                yield None
            size, member_id = heappop(most)
            work += 1
            if -size != sizes[member_id] or self.class_of[member_id].closed:
                continue
            chain = self._chain(member_id)
            work += BETWEEN_PAUSES // BETWEEN_STEPS + len(self.class_of[member_id].topic_ids)
            if chain:
                taker = self._pass_on(member_id, chain)
                heappush(most, (-sizes[member_id], member_id))
                heappush(most, (-sizes[taker], taker))

    def _choice(self, topic: SharedTopic) -> tuple[float, int, Uuid]:
        subscribers = sum(len(each.members) for each in topic.classes)
        return -self.draft.topics[topic.topic_id].partitions / subscribers, subscribers, topic.topic_id

    def _assign(self, topic: SharedTopic, partition: AssignablePartition) -> str:
        """Assign a partition to the subscriber with the fewest partitions; return the subscriber's member id."""
        taker = topic.least(self.draft.sizes)[1]
        member_id = taker.least(self.draft.sizes)[1]
        self._enter(member_id, partition)
        return member_id

    def _chain(self, member_id: str) -> list[SharedTopic]:
        """Return a chain of topics by which this member can indirectly pass a partition to a member with fewer partitions.

        In each step of the chain, one member passes a partition of the topic to the next member. The list is empty without a chain.
        """
        sizes = self.draft.sizes
        enough = sizes[member_id] - 2
        begins = [self.topics[topic_id] for topic_id, indexes in sorted(self.draft.partitions_of(member_id).items()) if indexes]
        begins.sort(key=lambda topic: topic.least(sizes)[0])
        before: dict[Uuid, SharedTopic | None] = {topic.topic_id: None for topic in begins}
        queue = begins
        seen: dict[int, SubscriptionClass] = {}
        for topic in queue:
            if topic.least(sizes)[0] <= enough:
                return self._back(topic, before)
            for each in topic.classes:
                if each.number not in seen and not each.closed:
                    seen[each.number] = each
                    found = [topic_id for topic_id in each.holders if topic_id not in before]
                    before.update(dict.fromkeys(found, topic))
                    queue.extend(self.topics[topic_id] for topic_id in found)
        for each in (self.class_of[member_id], *seen.values()):
            each.closed = True
        return []

    def _back(self, last: SharedTopic, before: dict[Uuid, SharedTopic | None]) -> list[SharedTopic]:
        chain: list[SharedTopic] = []
        topic: SharedTopic | None = last
        while topic is not None:
            chain.append(topic)
            topic = before[topic.topic_id]
        return chain[::-1]

    def _pass_on(self, member_id: str, chain: list[SharedTopic]) -> str:
        """Move one partition in each step of the chain, from one member to the next.

        Return the last member, which gets one more partition.
        """
        giver = member_id
        for topic, following in pairwise(chain):
            partition = self._withdraw(giver, topic)
            giver = self._holder(topic, following)
            self._enter(giver, partition)
        return self._assign(chain[-1], self._withdraw(giver, chain[-1]))

    def _holder(self, topic: SharedTopic, following: SharedTopic) -> str:
        """Return a subscriber of `topic` that has a partition of `following`, the next topic in a chain."""
        return next(member_id for each in topic.classes for member_id in each.holders.get(following.topic_id, ()))

    def _withdraw(self, member_id: str, topic: SharedTopic) -> AssignablePartition:
        """Take a partition of a topic from a member, preferably one that the member did not own before the assignment."""
        held = self.draft.partitions_of(member_id)[topic.topic_id]
        owned: Iterable[int] = self.draft.subscribers[member_id].owned.get(topic.topic_id, frozenset())
        partition = AssignablePartition(topic.topic_id, max(held - frozenset(owned) or held))
        self.draft.unassign(member_id, partition)
        its = self.class_of[member_id]
        if not self.draft.partitions_of(member_id)[topic.topic_id]:
            del its.holders[topic.topic_id][member_id]
            if not its.holders[topic.topic_id]:
                del its.holders[topic.topic_id]
        size = self.draft.sizes[member_id]
        its.shrank(size, member_id)
        for topic_id in its.topic_ids:
            self.topics[topic_id].shrank(size, its.number)
        return partition

    def _enter(self, member_id: str, partition: AssignablePartition) -> None:
        self.draft.assign(member_id, partition)
        self.class_of[member_id].holders.setdefault(partition.topic_id, {})[member_id] = None


def level(draft: AssignmentDraft) -> Pauses[None]:
    """Assign all free partitions of the draft, and make the shares even."""
    leveller = Leveller(draft)
    yield from leveller.index()
    yield from leveller.hand_out()
    yield from leveller.relieve()

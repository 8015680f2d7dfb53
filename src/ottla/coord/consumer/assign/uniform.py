"""The assignor `uniform`: members' numbers of partitions differ by at most one, and as few partitions as possible change members.

If members subscribe to different topics (`ottla.coord.consumer.assign.uneven`), shares are as even as possible. Within these two
rules, members get partitions with replicas in their own rack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.coord.consumer.assign import BETWEEN_PAUSES, Partitions, Subscriber, TopicShape, finish
from ottla.coord.consumer.assign.draft import AssignmentDraft, spread
from ottla.coord.consumer.assign.racks import prefer_racks
from ottla.coord.consumer.assign.uneven import level
from ottla.ports import Pauses
from ottla.wire.schema import Uuid


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
        yield from prefer_racks(draft)
        return (yield from draft.assigned())


def _claims(draft: AssignmentDraft) -> Pauses[dict[str, int]]:
    """Free the partitions that exceed members' fair shares. Return how many more partitions each other member gets.

    If the division leaves a remainder, the members with the most partitions get one partition more.
    """
    least, extra = divmod(draft.total, len(draft.members))
    sizes = draft.sizes
    for member_id in [member_id for member_id, size in sizes.items() if size > least]:
        fair = least + (extra > 0)
        extra -= extra > 0
        yield from _give_back(draft, member_id, sizes[member_id] - fair)
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


def _give_back(draft: AssignmentDraft, member_id: str, count: int) -> Pauses[None]:
    """Free `count` of a member's partitions, so that the rest is spread evenly over topics."""
    if count:
        stays = draft.sizes[member_id] - count
        for position, partition in enumerate(spread(draft.held(member_id))):
            if position >= stays:
                draft.take(member_id, partition)
            if position % BETWEEN_PAUSES == BETWEEN_PAUSES - 1:
                yield None


def _fill(draft: AssignmentDraft, claims: dict[str, int]) -> Pauses[None]:
    """Assign the free partitions round-robin, so that each topic is spread over many members."""
    for given, (member_id, partition) in enumerate(zip(_turns(claims), draft.unassigned(), strict=True)):
        draft.give(member_id, partition)
        if given % BETWEEN_PAUSES == 0:
            yield None


def _turns(claims: dict[str, int]) -> Iterator[str]:
    """Yield each member as often as its claim, round-robin: members with a claim of 1 or more, then of 2 or more, and so on."""
    members = list(claims)
    turn = 0
    while members:
        yield from members
        turn += 1
        members = [member_id for member_id in members if claims[member_id] > turn]

"""The assignor `uniform`: every member has as many partitions as every other, give or take one; then nothing moves without need.

Where members subscribe to different topics (`ottla.coord.consumer.assign.uneven`) it comes as near to that as can be. Members read
from replicas in their own rack as far as neither rule suffers.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coord.consumer.assign import Partitions, Subscriber, TopicShape
from ottla.coord.consumer.assign.draft import AssignablePartition, AssignmentDraft, spread
from ottla.coord.consumer.assign.racks import prefer_racks
from ottla.coord.consumer.assign.uneven import level
from ottla.wire.schema import Uuid


class UniformAssignor:
    """See the module."""

    name = "uniform"

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """See `Assignor`."""
        if not subscribers:
            return {}
        draft = AssignmentDraft(subscribers, topics)
        if len({subscriber.topic_ids for subscriber in subscribers.values()}) == 1:
            _fill(draft, _claims(draft))
        else:
            level(draft)
        prefer_racks(draft)
        return draft.assigned()


def _claims(draft: AssignmentDraft) -> dict[str, int]:
    """How many partitions each member may still get, once those that had too many have given the rest back.

    The ones that are left over, when all have the same, stay with members that have one more already.
    """
    least, extra = divmod(draft.total, len(draft.members))
    sizes = draft.sizes
    for member_id in [member_id for member_id, size in sizes.items() if size > least]:
        fair = least + (extra > 0)
        extra -= extra > 0
        _give_back(draft, member_id, sizes[member_id] - fair)
    claims = {}
    for member_id, size in sizes.items():
        if size <= least:
            claim = least + (extra > 0) - size
            extra -= extra > 0
            if claim:
                claims[member_id] = claim
    return claims


def _give_back(draft: AssignmentDraft, member_id: str, count: int) -> None:
    """Of the topics that it has most of."""
    if count:
        held = [
            AssignablePartition(topic_id, index)
            for topic_id, indexes in sorted(draft.held(member_id).items())
            for index in sorted(indexes)
        ]
        for partition in spread(held)[-count:]:
            draft.take(member_id, partition)


def _fill(draft: AssignmentDraft, claims: dict[str, int]) -> None:
    """Deal the free partitions in turns, so that each topic is spread over many members."""
    turns: list[str] = []
    members = list(claims)
    turn = 0
    while members:
        turns += members
        turn += 1
        members = [member_id for member_id in members if claims[member_id] > turn]
    for member_id, partition in zip(turns, list(draft.unassigned()), strict=True):
        draft.give(member_id, partition)

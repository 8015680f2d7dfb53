"""A wrapper that checks the results of a user's assignor. After an error, members keep their partitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.coord.consumer.assign import Assignor, Partitions, Subscriber, TopicShape, finish
from ottla.coord.consumer.assign.draft import AssignmentDraft
from ottla.wire.schema import Uuid

log = logging.getLogger("ottla.coord")


class Checked:
    """A wrapper that checks the results of a user's assignor.

    If its result is invalid, or it raises, members keep their partitions. Partitions that no member had stay unassigned until the
    group changes again. Each fault is logged.
    """

    def __init__(self, assignor: Assignor) -> None:
        self._assignor = assignor
        self.name = assignor.name

    def assign(self, subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape]) -> Mapping[str, Partitions]:
        """Return the checked assignment. The assignor can use any collection type, and can leave out members without partitions."""
        try:
            found = self._assignor.assign(subscribers, topics)
            assigned = {member_id: _frozen(found.get(member_id, {}), subscribers[member_id].owned) for member_id in subscribers}
            fault = _fault(subscribers, topics, assigned)
            if found.keys() - subscribers.keys():
                fault = f"it assigns partitions to {min(found.keys() - subscribers.keys())}, which is not a member"
        except Exception as error:
            fault = f"it raised {error!r}"
        if fault is None:
            return assigned
        log.error("assignor %s: %s; members keep their assignment: repair the assignor", self.name, fault)
        draft = AssignmentDraft(subscribers, topics)
        finish(draft.keep())
        return finish(draft.result())


def _frozen(found: Mapping[Uuid, frozenset[int]], owned: Partitions) -> Partitions:
    partitions = {topic_id: frozenset(numbers) for topic_id, numbers in found.items() if numbers}
    return owned if partitions == owned else partitions


def _fault(
    subscribers: Mapping[str, Subscriber], topics: Mapping[Uuid, TopicShape], assigned: Mapping[str, Partitions]
) -> str | None:
    """Return a message that says why the assignment is invalid; None if it is valid."""
    free = {
        topic_id: set(range(topics[topic_id].partitions))
        for subscriber in subscribers.values()
        for topic_id in subscriber.topic_ids
        if topic_id in topics
    }
    for member_id, partitions in assigned.items():
        for topic_id, numbers in partitions.items():
            if topic_id not in subscribers[member_id].topic_ids:
                return f"it assigns {member_id} partitions of a topic to which it does not subscribe"
            if not numbers <= free.get(topic_id, set()):
                return f"it assigns {member_id} partitions {sorted(numbers)} that its topic does not have, or assigns some twice"
            free[topic_id] -= numbers
    left = sum(map(len, free.values()))
    return f"it leaves {left} partitions unassigned" if left else None

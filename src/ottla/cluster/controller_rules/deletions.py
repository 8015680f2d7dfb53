"""Topics that are being deleted: when brokers must delete their replicas, and when all have. Only the context is used.

A deletion waits while a broker is offline, has failed to delete a replica, or a reassignment is in progress, until it is
resumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.cluster.controller_rules.context import AT_ONCE, ControllerContext, TopicPartition
from ottla.ports import Pauses


@dataclass(slots=True)
class Deletion:
    """The deletion of one topic: (partition, broker) of the replicas in unanswered requests, and of the deleted replicas."""

    asked: set[tuple[int, int]] = field(default_factory=set)
    deleted: set[tuple[int, int]] = field(default_factory=set)
    is_halted: bool = False


class TopicDeletions:
    """All requested deletions that are not complete. The partitions of their topics have no leader."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deletions: dict[str, Deletion] = {}

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._deletions)

    @property
    def forgotten(self) -> frozenset[str]:
        """Return the topics that brokers drop: all except those being reassigned, whose partitions a leader must keep."""
        return self.topics.difference(name for name, _ in self._context.reassigning)

    def __contains__(self, topic: str) -> bool:
        return topic in self._deletions

    def queue(self, topics: Iterable[str]) -> None:
        """Start the deletion of these topics."""
        for name in topics:
            self._deletions.setdefault(name, Deletion())

    def resume(self, topics: Iterable[str]) -> None:
        """Continue halted deletions of these topics: a broker is back."""
        for name in topics:
            if name in self._deletions:
                self._deletions[name].is_halted = False

    def forget(self, topic: str) -> None:
        """Remove a deletion: the topic is gone, or stays after all."""
        self._deletions.pop(topic, None)

    def is_over(self, topic: str) -> bool:
        """Return whether no replica of a topic is left."""
        deletion = self._deletions[topic]
        return not deletion.asked and not self._left(topic, deletion)

    def begin(self, topic: str) -> Pauses[dict[TopicPartition, list[int]]]:
        """Return, with pauses, the replicas of a topic to delete now, none if its deletion waits. They count as asked.

        A topic with a replica on a broker that is away is halted, but its other replicas are deleted. A replica that its broker
        cannot use can be deleted all the same. Nothing is deleted while partitions are
        reassigned, because replicas that are being added would be created again.
        """
        beginning: dict[TopicPartition, list[int]] = {}
        deletion = self._deletions[topic]
        if deletion.asked or deletion.is_halted or self._is_on_the_move(topic):
            return beginning
        for number, (index, node) in enumerate(self._left(topic, deletion), 1):
            if number % AT_ONCE == 0:
                yield
            if node in self._context.brokers:
                deletion.asked.add((index, node))
                beginning.setdefault((topic, index), []).append(node)
            else:
                deletion.is_halted = True
        return beginning

    def _is_on_the_move(self, topic: str) -> bool:
        reassigning = self._context.reassigning
        return bool(reassigning) and any((topic, index) in reassigning for index in self._context.topics.get(topic, ()))

    def deleted(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Mark a broker's replicas of these partitions as deleted."""
        for name, index in partitions:
            deletion = self._deletions.get(name)
            if deletion is not None:
                deletion.asked.discard((index, node_id))
                deletion.deleted.add((index, node_id))

    def failed(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Halt the topics of these partitions: a broker could not delete its replicas, or is gone."""
        for name, index in partitions:
            deletion = self._deletions.get(name)
            if deletion is not None:
                deletion.asked.discard((index, node_id))
                deletion.is_halted = True

    def _left(self, name: str, deletion: Deletion) -> list[tuple[int, int]]:
        assignments = self._context.topics.get(name, {})
        return [
            (index, node)
            for index, assignment in assignments.items()
            for node in assignment.replicas
            if (index, node) not in deletion.deleted
        ]

"""Topics that are being deleted: the replicas that brokers must delete next, and whether all are deleted. Uses only the context.

A deletion is halted when a broker is offline or fails to delete a replica, until `resume`. It also waits until the topic's
reassignments are complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.cluster.controller_rules.context import AT_ONCE, ControllerContext, TopicPartition
from ottla.ports import Pauses


@dataclass(slots=True)
class Deletion:
    """The deletion of one topic. Replicas are (partition, broker id).

    `asked` are the replicas in StopReplica requests without a response, and `deleted` those that brokers have deleted.
    """

    asked: set[tuple[int, int]] = field(default_factory=set)
    deleted: set[tuple[int, int]] = field(default_factory=set)
    is_halted: bool = False


class TopicDeletions:
    """The topics that the controller is deleting. Their partitions have no leader."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deletions: dict[str, Deletion] = {}

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._deletions)

    @property
    def forgotten(self) -> frozenset[str]:
        """Return the topics that brokers must remove from their metadata.

        These are all topics in deletion, except topics that are being reassigned.
        """
        return self.topics.difference(name for name, _ in self._context.reassigning)

    def __contains__(self, topic: str) -> bool:
        return topic in self._deletions

    def queue(self, topics: Iterable[str]) -> None:
        """Start the deletion of these topics."""
        for name in topics:
            self._deletions.setdefault(name, Deletion())

    def resume(self, topics: Iterable[str]) -> None:
        """Continue halted deletions of these topics, because a broker came back."""
        for name in topics:
            if name in self._deletions:
                self._deletions[name].is_halted = False

    def forget(self, topic: str) -> None:
        """Remove a topic from the topics in deletion, because it is deleted completely, or its deletion was cancelled."""
        self._deletions.pop(topic, None)

    def is_over(self, topic: str) -> bool:
        """Return whether all replicas of a topic have been deleted."""
        deletion = self._deletions[topic]
        return not deletion.asked and not self._remaining(topic, deletion)

    def begin(self, topic: str) -> Pauses[dict[TopicPartition, list[int]]]:
        """Return the brokers whose replicas must be deleted now, by partition, and record these replicas in `asked`, with pauses.

        An unregistered broker halts the topic's deletion, but other brokers still delete their replicas, even on a failed log
        directory. While a partition is being reassigned, nothing is deleted, because added replicas would be created again.
        """
        beginning: dict[TopicPartition, list[int]] = {}
        deletion = self._deletions[topic]
        if deletion.asked or deletion.is_halted or self._is_on_the_move(topic):
            return beginning
        for number, (index, node) in enumerate(self._remaining(topic, deletion), 1):
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

    def mark_deleted(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Mark a broker's replicas of these partitions as deleted."""
        for name, index in partitions:
            deletion = self._deletions.get(name)
            if deletion is not None:
                deletion.asked.discard((index, node_id))
                deletion.deleted.add((index, node_id))

    def halt_failed(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Halt the deletion of these partitions' topics, because a broker could not delete its replicas or is offline."""
        for name, index in partitions:
            deletion = self._deletions.get(name)
            if deletion is not None:
                deletion.asked.discard((index, node_id))
                deletion.is_halted = True

    def _remaining(self, name: str, deletion: Deletion) -> list[tuple[int, int]]:
        assignments = self._context.topics.get(name, {})
        return [
            (index, node)
            for index, assignment in assignments.items()
            for node in assignment.replicas
            if (index, node) not in deletion.deleted
        ]

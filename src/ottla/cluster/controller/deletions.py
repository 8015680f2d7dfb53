"""Topics that are to be deleted: when a broker is asked to delete its replicas, and when all have done so. Knows the context only.

A deletion that can't go on, because a broker is gone or refused, or a reassignment is under way, waits until it is resumed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from ottla.cluster.controller.context import AT_ONCE, ControllerContext, TopicPartition


@dataclass(slots=True)
class Deletion:
    """One topic's: the (partition, broker) that were asked and have not answered, and those that are deleted."""

    asked: set[tuple[int, int]] = field(default_factory=set)
    deleted: set[tuple[int, int]] = field(default_factory=set)
    is_halted: bool = False


class TopicDeletions:
    """All that were asked for and are not over. While a topic is one of them, nobody leads its partitions."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._deletions: dict[str, Deletion] = {}

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self._deletions)

    @property
    def forgotten(self) -> frozenset[str]:
        """Those of which brokers hear that they are to be deleted: all but what is on the move, which a leader has to know."""
        return self.topics.difference(name for name, _ in self._context.reassigning)

    def __contains__(self, topic: str) -> bool:
        return topic in self._deletions

    def queue(self, topics: Iterable[str]) -> None:
        """These topics are to be deleted."""
        for name in topics:
            self._deletions.setdefault(name, Deletion())

    def resume(self, topics: Iterable[str]) -> None:
        """Try again: a broker is back."""
        for name in topics:
            if name in self._deletions:
                self._deletions[name].is_halted = False

    def forget(self, topic: str) -> None:
        """The topic is gone, or is not to be deleted after all."""
        self._deletions.pop(topic, None)

    def is_over(self, topic: str) -> bool:
        """Whether no replica of a topic is left."""
        deletion = self._deletions[topic]
        return not deletion.asked and not self._left(topic, deletion)

    def begin(self, topic: str) -> Generator[None, None, dict[TopicPartition, list[int]]]:
        """The replicas of a topic that are to be deleted now, unless something holds it up, with pauses. They count as asked.

        A topic with a replica that is offline is halted: the others are deleted all the same. Nothing of one that is on the move is
        deleted: replicas that are told to come would be made again.
        """
        beginning: dict[TopicPartition, list[int]] = {}
        deletion = self._deletions[topic]
        if deletion.asked or deletion.is_halted or self._is_on_the_move(topic):
            return beginning
        for number, (index, node) in enumerate(self._left(topic, deletion), 1):
            if number % AT_ONCE == 0:
                yield
            if self._context.is_online(node, (topic, index), is_stopping_counted=True):
                deletion.asked.add((index, node))
                beginning.setdefault((topic, index), []).append(node)
            else:
                deletion.is_halted = True
        return beginning

    def _is_on_the_move(self, topic: str) -> bool:
        reassigning = self._context.reassigning
        return bool(reassigning) and any((topic, index) in reassigning for index in self._context.topics.get(topic, ()))

    def deleted(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker has deleted its replicas of these."""
        for name, index in partitions:
            deletion = self._deletions.get(name)
            if deletion is not None:
                deletion.asked.discard((index, node_id))
                deletion.deleted.add((index, node_id))

    def failed(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker could not delete its replicas of these, or is gone: their topics wait."""
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

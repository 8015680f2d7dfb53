"""Lets the logs of partitions be those that the image says, one at a time: thousands of them come and go beside requests.

Knows the image, partitions and the disk port; decides nothing about topics. A topic is in the registry before its logs are made,
and out of it before they are deleted: whatever ends the broker in between, the next start goes on from there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from ottla.broker.failures import CONFLICTS
from ottla.broker.scheduler import Steps
from ottla.broker.serving.later import Reply, Waiting
from ottla.cluster.image import TopicImage
from ottla.log.names import DELETING, STRAY, set_aside_name
from ottla.ports import Change, Now, StorageFailed
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

STATES = 64
"""How many partitions get their leader in one change of the registry: what a sync costs is spread, and nobody waits long."""


class TopicLogs:
    """How far each topic's logs are what they should be. They may be behind while somebody goes through `follow`, step by step."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._opened: dict[str, tuple[bytes, int]] = {}
        self._left: dict[str, list[str]] = {}
        self._states: dict[bytes, deque[Change]] = {}
        self._leading: list[tuple[TopicImage, Change]] = []
        self._replies = count()

    def open_all(self, topic: TopicImage, now: Now, *, clean: bool) -> None:
        """Open the logs of a topic that was there before: at start-up."""
        for index in range(len(topic.partitions)):
            self._open(topic, index, now, clean=clean)

    def lead_later(self, topic_id: bytes, states: Sequence[Change]) -> None:
        """States of a topic's new partitions, in order: each is for the registry and the image when the log is there."""
        if states:
            self._states.setdefault(topic_id, deque()).extend(states)

    def is_gone(self, name: str) -> bool:
        """Whether nothing is left of a topic that was deleted."""
        return name not in self._opened

    def clear_away(self, name: str) -> None:
        """Delete what the disk did not give up when a topic was deleted: before its name is given again. Raises `StorageFailed`."""
        left = self._left.get(name, [])
        while left:
            self.delete(left[-1])
            left.pop()
        if name in self._left:
            del self._left[name]
            self._broker.topics.deletions.renamed(name)

    def follow(self, names: Sequence[str], now: Now) -> Iterator[None]:
        """Drop logs of topics that are no more, and open those that are new."""
        is_new = False
        for name in names:
            yield from self._drop_old(name)
            if self.is_gone(name) and name not in self._left:
                self._broker.topics.deletions.renamed(name)
            for _ in self._open_new(name, now):
                is_new = True
                if len(self._leading) >= STATES:
                    self._lead()
                yield
        self._lead()
        self._broker.topics.deletions.sync_soon()
        for name in names:
            self._broker.wake(("topic", name))
        if is_new:
            # Or the first sync in each new directory would have to sync this one again.
            try:
                self._broker.disk.sync_soon([self._broker.disk.directory("")], _names_are_synced)
            except StorageFailed as failure:
                _names_are_synced(failure)

    def reply(self, response: Message, names: Sequence[str], now: Now) -> Reply:
        """The response, once the logs of these topics follow. That goes on whether or not somebody waits for it."""
        key, followed = ("logs", next(self._replies)), list[bool]()

        def steps() -> Steps[None]:
            yield from self.follow(names, now)
            followed.append(True)
            self._broker.wake(key)

        self._broker.scheduler.begin(f"logs {key[1]}", steps())

        return response if followed else Waiting((key,), None, lambda now, expired: response if followed else None)

    def _drop_old(self, name: str) -> Iterator[None]:
        """Others may go through this at the same time, so that each step looks anew at what is left."""
        while name in self._opened:
            topic_id, opened = self._opened[name]
            topic = self._broker.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                return
            self._states.pop(topic_id, None)
            if not opened:
                del self._opened[name]
                return
            self._opened[name] = (topic_id, opened - 1)
            if not self._broker.partitions.drop(name, opened - 1):
                self._left.setdefault(name, []).append(f"{name}-{opened - 1}")
            yield

    def _open_new(self, name: str, now: Now) -> Iterator[None]:
        topic = self._broker.topics.get(name)
        while topic is not None and self._broker.topics.get(name) is topic:
            index = self._opened.get(name, (topic.topic_id, 0))[1]
            if index == len(topic.partitions):
                return
            self._make_room(f"{name}-{index}")
            self._open(topic, index, now)
            states = self._states.get(topic.topic_id)
            if states:
                self._leading.append((topic, states.popleft()))
            if not states:
                self._states.pop(topic.topic_id, None)
            yield

    def _lead(self) -> None:
        """Let the partitions that were opened have their leader. What the registry does not take in, the next start gives it."""
        leading, self._leading = self._leading, []
        changes = [change for topic, change in leading if self._broker.topics.get(topic.name) is topic]
        try:
            self._broker.registry.commit(changes)
        except CONFLICTS as conflict:
            log.info("another broker was quicker to note who leads new partitions: %s", conflict)
        except StorageFailed as failure:
            log.error("the registry refused to note who leads new partitions: %s", failure)
        for change in changes:
            self._broker.topics.image.apply(change.path, change.value)

    def _open(self, topic: TopicImage, index: int, now: Now, *, clean: bool = True) -> None:
        config = self._broker.settings.log_config(topic.configs)
        self._broker.partitions.open(topic.name, index, topic.topic_id, config, now, clean=clean)
        self._opened[topic.name] = (topic.topic_id, index + 1)

    def _make_room(self, directory: str) -> None:
        """A directory that is there already belongs to nothing. Where it can't be moved, the log stays offline for its sake."""
        if self._broker.disk.exists(directory):
            try:
                log.warning("%s is there though the partition is new; it is kept as %s", directory, self.set_aside(directory))
            except StorageFailed as failure:
                log.error("%s is there though the partition is new, and can't be moved: %s", directory, failure)

    def delete(self, directory: str) -> None:
        """Delete a directory of a topic that was deleted. Raises `StorageFailed`."""
        gone = set_aside_name(directory, self._broker.random_bytes(16).hex(), DELETING)
        self._broker.disk.rename(directory, gone, sync=False)
        self._broker.disk.remove_tree_soon(gone)

    def set_aside(self, directory: str) -> str:
        """Rename a directory that belongs to nothing as Kafka does, so that its records are not lost; returns the new name."""
        name = set_aside_name(directory, self._broker.random_bytes(16).hex(), STRAY)
        self._broker.disk.rename(directory, name, sync=False)
        return name


def _names_are_synced(failure: StorageFailed | None) -> None:
    """Directories that a power cut takes are made again: nothing in them was promised."""
    if failure is not None:
        log.error("the names of new directories could not be synced: %s", failure)

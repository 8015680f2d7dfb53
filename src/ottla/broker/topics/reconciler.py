"""Makes the logs on this broker those that the image says, one at a time: thousands of them come and go beside requests.

Knows the image and partitions; decides nothing about topics. A topic is in the registry before its logs are made,
and out of it before they are deleted, so that the next start goes on from wherever the broker ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.commits import Commits
from ottla.broker.topics.deletions import Deletions
from ottla.broker.topics.directories import PartitionDirectories, some
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.ports import Change, Now, Steps, StorageFailed
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

STATES = 64
"""How many partitions get their leader in one change of the registry: small enough that no request waits long for it."""


class LogReconciler:
    """How far each topic's logs are what they should be. They may be behind while a call of `follow` is under way.

    `wake` is called with ("topic", name) when that topic's logs are there or gone.
    """

    def __init__(
        self,
        image: ClusterImage,
        commits: Commits,
        partitions: Partitions,
        directories: PartitionDirectories,
        deletions: Deletions,
        settings: SettingsInForce,
        scheduler: Scheduler,
        wake: Callable[[Hashable], None],
    ) -> None:
        self._image = image
        self._commits = commits
        self._partitions = partitions
        self._directories = directories
        self._deletions = deletions
        self._settings = settings
        self._scheduler = scheduler
        self._wake = wake
        self._opened: dict[str, tuple[bytes, int]] = {}
        self._left: dict[str, list[str]] = {}
        self._states: dict[bytes, deque[Iterator[Change]]] = {}
        self._leading: list[tuple[TopicImage, Change]] = []
        self._has_new_names = False

    def load(self, now: Now, new: Collection[str], *, clean: bool) -> None:
        """Clear the data directory of what deleted topics left, and open every log: at start-up. Raises `StorageFailed`.

        Partitions that are `new` may have no directory yet.
        """
        held = [(topic.name, one.index) for topic in self._image.topics.values() for one in topic.partitions]
        self._partitions.checkpoints.load()
        self._deletions.load()
        self._directories.clear(self._image.partition_names(), self._deletions.names, new)
        self._deletions.all_renamed()
        for topic in self._image.topics.values():
            for index in range(len(topic.partitions)):
                self._open(topic, index, now, clean=clean)
        forgotten = self._partitions.checkpoints.keep_only(set(held))
        lost = [f"{name}-{index}" for name, index in forgotten if name not in self._deletions.names]
        if lost and clean:  # after a crash, these files may name what was deleted since they were written
            log.warning("partitions that held records have neither a topic nor a directory any more: %s", some(lost))
        self._partitions.checkpoints.settle()

    def lead_later(self, topic_id: bytes, states: Iterable[Change]) -> None:
        """Who leads a topic's new partitions, in order: each is for the registry and the image when the log is there."""
        self._states.setdefault(topic_id, deque()).append(iter(states))

    def free(self, names: Sequence[str], now: Now) -> None:
        """Let nothing be left of deleted topics: before their names are given again. Raises `StorageFailed`."""
        self.follow_at_once([name for name in names if name in self._opened], now)  # what goes on beside requests, all of it now
        self._partitions.checkpoints.settle(names)
        for name in names:
            left = self._left.get(name, [])
            while left:
                self._directories.delete(left[-1])
                left.pop()
            if name in self._left:
                del self._left[name]
                self._deletions.renamed(name)
        self._deletions.sync(names)  # or a power cut could put a former topic's directory in the place of the new one's

    def free_slowly(self, names: Sequence[str]) -> Steps[None]:
        """Most of `free`, with pauses: what remains is soon done, unless the disk refuses."""
        for name in names:
            if name not in self._image.topics:
                yield from self._drop_old(name)
        yield from self._partitions.checkpoints.settle_slowly(names)
        for name in names:
            for _ in self._delete_left(name):
                yield None
        yield from self._deletions.sync_slowly(names)

    def _delete_left(self, name: str) -> Iterator[None]:
        """Delete the directories that could not be deleted with their logs, as far as the disk lets us."""
        left = self._left.get(name)
        while left:
            try:
                self._directories.delete(left[-1])
            except StorageFailed as failure:
                log.error("%s could not be deleted: %s; its name is not given again before it is", left[-1], failure)
                return
            left.pop()
            yield

    def follow_at_once(self, names: Sequence[str], now: Now) -> None:
        """All of `follow`."""
        for _ in self._catch_up(names, now):
            pass
        while self._leading:
            self._commits.lead(self._new_states())
        self._caught_up(names)

    def follow(self, names: Sequence[str], now: Now) -> Steps[None]:
        """Drop the logs of topics that are no more, and open those that are new."""
        for _ in self._catch_up(names, now):
            if len(self._leading) >= STATES:
                self._scheduler.begin("leaders", self._lead(), urgent=True)
            yield None
        yield from self._lead()
        self._caught_up(names)

    def _lead(self) -> Steps[None]:
        """Let all partitions that were opened have their leader; on the way, wait for those that others see to."""
        yield from self._commits.lead_slowly(self._new_states)
        while self._leading:
            yield from self._commits.lead_slowly(self._new_states)

    def _catch_up(self, names: Sequence[str], now: Now) -> Iterator[None]:
        for name in names:
            yield from self._drop_old(name)
            if name not in self._opened and name not in self._left:
                self._deletions.renamed(name)
            yield from self._open_new(name, now)

    def _caught_up(self, names: Sequence[str]) -> None:
        self._deletions.sync_soon()
        for name in names:
            self._wake(("topic", name))
        if self._has_new_names:
            self._has_new_names = False
            self._directories.sync_soon()

    def reply(self, response: Message, names: Sequence[str], now: Now) -> Reply:
        """The response, once the logs of these topics follow. They do so whether or not anyone still waits for it."""
        delayed = DelayedReply(lambda: response, blocking=True)
        delayed.expect()

        def done(_: None) -> None:
            delayed.happened()

        def failed(failure: Exception) -> None:
            log.error("not all logs of %s could be changed: %s; the next start completes it", ", ".join(names), failure)
            delayed.happened()

        self._scheduler.begin(delayed, self.follow(names, now), done, failed)
        return delayed.reply()

    def _drop_old(self, name: str) -> Iterator[None]:
        """Several calls may go through this at once, so each step looks again at what is left."""
        while name in self._opened:
            topic_id, opened = self._opened[name]
            topic = self._image.topics.get(name)
            if topic is not None and topic.topic_id == topic_id:
                return
            self._states.pop(topic_id, None)
            if not opened:
                del self._opened[name]
                return
            self._opened[name] = (topic_id, opened - 1)
            if not self._partitions.drop(name, opened - 1):
                self._left.setdefault(name, []).append(f"{name}-{opened - 1}")
            yield None

    def _open_new(self, name: str, now: Now) -> Iterator[None]:
        topic = self._image.topics.get(name)
        while topic is not None and self._image.topics.get(name) is topic:
            index = self._opened.get(name, (topic.topic_id, 0))[1]
            if index == len(topic.partitions):
                self._states.pop(topic.topic_id, None)
                return
            self._directories.make_room(f"{name}-{index}")
            self._open(topic, index, now)
            self._has_new_names = True
            states = self._states.get(topic.topic_id)
            while states:
                state = next(states[0], None)
                if state is not None:
                    self._leading.append((topic, state))
                    break
                states.popleft()
            yield None

    def _new_states(self) -> list[Change]:
        """Who leads the first of the partitions that were opened, if their topics still exist."""
        leading, self._leading = self._leading[:STATES], self._leading[STATES:]
        return [state for topic, state in leading if self._image.topics.get(topic.name) is topic]

    def _open(self, topic: TopicImage, index: int, now: Now, *, clean: bool = True) -> None:
        config = self._settings.value.log_config(topic.configs)
        self._partitions.open(topic.name, index, topic.topic_id, config, now, clean=clean)
        self._opened[topic.name] = (topic.topic_id, index + 1)

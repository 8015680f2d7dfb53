"""Reads of brokers, topics and partition states from the registry, in pieces that leave time for other jobs.

An entry that can't be decoded is logged, left unchanged, and treated as missing.

Reads are repeated while the registry is unreachable and the session is certainly alive. Kafka's controller also continues until
its session ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.cluster import features, layout
from ottla.cluster.controller_rules import entries
from ottla.cluster.controller_rules.context import LeaderAndIsr, LiveBroker, ReplicaAssignment, TopicPartition
from ottla.ports import Entry, RegistryAway, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

T = TypeVar("T")
S = TypeVar("S")

AT_ONCE = 2000
"""Registry entries read in one request. The entry of a partition state has a few hundred bytes."""
UNDERSTOOD_AT_ONCE = 50
"""Entries decoded between two pauses: less than a millisecond of work, unless topics are large."""

Changed = Callable[[str], None]

FIRST_MS: Final = 50
MOST_MS: Final = 500


class RegistryRetry:
    """Retries of the controller's reads of the registry while the registry is unreachable, during one controller epoch."""

    def __init__(self, registry: SharedRegistry, scheduler: Scheduler) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._repeats = Repeats(FIRST_MS, MOST_MS)
        self.is_over = False
        """Whether the term is over, so that reads are no longer retried."""

    def read(self, steps: Callable[[], Steps[T]]) -> Steps[T]:
        """Run steps that only read, and retry them while the registry is unreachable.

        Raises `RegistryAway` if the session may have ended.
        """
        while True:
            try:
                found = yield from steps()
            except RegistryAway as failure:
                yield from self.pause(failure)
            else:
                self._repeats.over()
                return found

    def pause(self, failure: RegistryAway) -> Steps[None]:
        """Pause before a retry. Raises `failure` if the session may have ended or the term is over."""
        if self.is_over or self._scheduler.now().mono_ms >= self._registry.session_end_ms():
            raise failure
        self._repeats.log_once(log, logging.INFO, "the controller waits for the registry: %s", failure)
        yield self._scheduler.rest(self._repeats.pause_ms())


class ControllerReader:
    """Reads brokers, topics and states from the registry. `changed` is called when an entry that a method has read changes."""

    def __init__(self, registry: SharedRegistry, patience: RegistryRetry) -> None:
        self._registry = registry
        self._patience = patience

    def value(self, path: str, changed: Changed | None = None) -> Steps[bytes | None]:
        """Return the value of an entry; None if it does not exist."""
        (entry,) = yield from self._patience.read(lambda: self._registry.read([path], changed=changed))
        return None if entry is None else entry.value

    def finalized_levels(self) -> Steps[dict[str, int]]:
        """Return the finalized feature levels. If their entry can't be decoded, log that and return an empty dict."""
        found = dict[str, int]()
        yield from self._each([layout.FEATURES], [None], None, lambda _, entry: found.update(features.levels_in(entry.value)))
        return found

    def names(self, path: str, changed: Changed | None = None) -> Steps[list[str]]:
        """Return the names of an entry's children; an empty list if the entry does not exist."""
        (names,) = yield from self._patience.read(lambda: self._registry.list([path], changed=changed))
        return names or []

    def brokers(self, changed: Changed | None = None, *, each: Changed | None = None) -> Steps[dict[int, LiveBroker]]:
        """Return the registered brokers by id. `changed` watches the list of brokers, and `each` watches each broker's entry."""
        numbers = [int(name) for name in (yield from self.names(layout.BROKERS, changed)) if name.isdecimal()]
        found = dict[int, LiveBroker]()
        paths = [layout.broker_path(number) for number in numbers]
        yield from self._each(paths, numbers, each, lambda number, entry: _put(found, number, entries.broker(number, entry)))
        return found

    def topics(self, names: Sequence[str], changed: Changed | None = None) -> Steps[dict[str, entries.TopicEntry]]:
        """Return the entries of the topics that exist, by name."""
        found = dict[str, entries.TopicEntry]()
        known = dict[tuple[int, ...], ReplicaAssignment]()
        paths = [layout.topic_path(name) for name in names]
        yield from self._each(paths, names, changed, lambda name, entry: _put(found, name, entries.topic(entry, known)))
        return found

    def states(self, partitions: Sequence[TopicPartition]) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
        """Return the leader and ISR of each partition that ever had a leader. Equal states share one object."""
        found = dict[TopicPartition, LeaderAndIsr]()
        known = dict[tuple[bytes, int], LeaderAndIsr]()  # many partitions have few distinct states

        def add(partition: TopicPartition, entry: Entry) -> None:
            key = entry.value, entry.version
            state = known.get(key)
            if state is None:
                state = known[key] = entries.state(entry)
            found[partition] = state

        for first in range(0, len(partitions), AT_ONCE):
            some = partitions[first : first + AT_ONCE]
            yield from self._each([layout.state_path(*partition) for partition in some], some, None, add)
        return found

    def notifications(self, path: str, names: Sequence[str], understand: Callable[[bytes], T]) -> Steps[list[T]]:
        """Return the decoded notifications with these names below `path`."""
        found = list[T]()
        paths = [f"{path}/{name}" for name in names]
        yield from self._each(paths, names, None, lambda _, entry: found.append(understand(entry.value)))
        return found

    def configs(self, names: Iterable[str]) -> Steps[dict[str, dict[str, str]]]:
        """Return the configs of each of these topics that has an entry for configs."""
        found = dict[str, dict[str, str]]()
        wanted = list(names)
        paths = [layout.topic_config_path(name) for name in wanted]
        yield from self._each(paths, wanted, None, lambda name, entry: _put(found, name, dict(layout.read(entry.value)["config"])))
        return found

    def _each(
        self, paths: Sequence[str], keys: Sequence[T], changed: Changed | None, take: Callable[[T, Entry], None]
    ) -> Steps[None]:
        for first in range(0, len(paths), AT_ONCE):
            some = paths[first : first + AT_ONCE]
            read = yield from self._patience.read(partial(self._registry.read, some, changed=changed))
            for _ in _in_pieces(zip(some, keys[first : first + AT_ONCE], read, strict=True), take):
                yield None


def _in_pieces(read: Iterable[tuple[str, T, Entry | None]], take: Callable[[T, Entry], None]) -> Iterator[None]:
    for number, (path, key, entry) in enumerate(read, 1):
        if entry is not None:
            try:
                take(key, entry)
            except layout.NOT_UNDERSTOOD as error:
                log.error("the registry's entry %s cannot be parsed (%s): repair it or remove it", path, layout.why(error))
        if number % UNDERSTOOD_AT_ONCE == 0:
            yield


def _put(found: dict[T, S], key: T, value: S) -> None:
    found[key] = value

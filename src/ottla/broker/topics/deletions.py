"""Topics that were deleted and of which something may be left: noted in the registry until nothing is.

A deletion is over when the topic's directories have other names on stable storage, and no coordinator keeps an offset committed for
it. If the broker ends before, its next start goes on. Knows the registry and the disk port, no logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial

from ottla.ports import Change, Disk, NoEntry, Registry, Steps, StorageFailed

log = logging.getLogger("ottla.broker")

NOTES = "/admin/delete_topics"
"""Where Kafka notes the topics that are yet to be deleted. Without it, the next start would miss them in the registry."""


def note(name: str) -> Change:
    """Goes with the change that deletes a topic."""
    return Change(f"{NOTES}/{name}", b"")


class Deletions:
    """The names of these topics; new topics may have the same names. `is_forgetting`: a coordinator keeps offsets of a topic."""

    def __init__(self, registry: Registry, disk: Disk, is_forgetting: Callable[[str], bool]) -> None:
        self._registry = registry
        self._disk = disk
        self._is_forgetting = is_forgetting
        self._noted: set[str] = set()
        self._renamed: dict[str, int] = {}
        self._count = 0
        self._durable: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._noted)

    def load(self) -> None:
        """Read what an earlier life of the broker left: at start-up."""
        self._noted.update(self._registry.children(NOTES))

    def begin(self, names: Collection[str]) -> None:
        """These were deleted, and the registry has noted it."""
        self._noted.update(names)
        for name in names:
            self._durable.discard(name)
            self._renamed.pop(name, None)

    def renamed(self, name: str) -> None:
        """No directory has the name of a partition of this topic any more, though a power cut may bring one back."""
        if name in self._noted and name not in self._durable:
            self._count += 1
            self._renamed[name] = self._count

    def sync_soon(self) -> None:
        """Start a sync of the names, without waiting for it."""
        if self._renamed:
            try:
                self._disk.sync_soon([self._disk.directory("")], partial(self._synced, self._count))
            except StorageFailed as failure:
                self._synced(self._count, failure)

    def all_renamed(self) -> None:
        """No deleted topic has a directory under its name: at start-up. Raises `StorageFailed`."""
        if self._noted:
            self._disk.sync_dir("")
            self._durable.update(self._noted)

    def sync(self, names: Iterable[str]) -> None:
        """Sync now, where one of these names is to be given again. Raises `StorageFailed`."""
        if not self._renamed.keys().isdisjoint(names):
            self._disk.sync_dir("")
            self._synced(self._count, None)

    def sync_slowly(self, names: Iterable[str]) -> Steps[None]:
        """The same without waiting for the disk. If that refuses, `sync` still finds it to do."""
        if not self._renamed.keys().isdisjoint(names):
            count = self._count
            failure = yield partial(self._disk.sync_soon, [self._disk.directory("")])
            if failure is None:
                self._synced(count, None)

    def settle(self) -> None:
        """Remove from the registry the deletions that are over."""
        over = [name for name in self._durable if not self._is_forgetting(name)]
        if not over:
            return
        try:
            noted = [path for name in over if self._registry.get(path := f"{NOTES}/{name}") is not None]
            self._registry.commit([Change(path, None) for path in noted])
            self._noted.difference_update(over)
            self._durable.difference_update(over)
        except NoEntry as gone:
            log.info("another broker was quicker to forget %s; what is left is forgotten later", gone)
        except StorageFailed as failure:
            log.error("the registry refused to forget deleted topics: %s", failure)

    def _synced(self, count: int, failure: StorageFailed | None) -> None:
        """The first `count` of them are durable; a topic deleted again since then is not one of these."""
        if failure is not None:
            log.error(
                "the names of deleted topics could not be synced: %s; the next start deletes what a power cut brings back", failure
            )
            return
        for name in [name for name, number in self._renamed.items() if number <= count]:
            del self._renamed[name]
            self._durable.add(name)
        self.settle()

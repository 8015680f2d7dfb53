"""Topics that were deleted and of which something may be left: noted in the registry until that is gone for good.

A topic's deletion is over when its directories have other names on stable storage, and no coordinator keeps an offset that was
committed for it. Whatever ends the broker before, the next start goes on. Knows the registry and the disk port, no logs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ottla.ports import Change, NoEntry, StorageFailed

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

NOTES = "/admin/delete_topics"
"""Where Kafka notes the topics that are yet to be deleted, so that a restart does not take their files for somebody's records."""


def note(name: str) -> Change:
    """What belongs to the change that deletes a topic."""
    return Change(f"{NOTES}/{name}", b"")


class Deletions:
    """The names of these topics. Others may have the same names meanwhile."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._noted: set[str] = set()
        self._renamed: dict[str, int] = {}
        self._count = 0
        self._durable: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._noted)

    def load(self) -> None:
        """Read what the last life of the broker left: at start-up."""
        self._noted.update(self._broker.registry.children(NOTES))

    def begin(self, names: Collection[str]) -> None:
        """These were deleted, which the registry has noted."""
        self._noted.update(names)
        for name in names:
            self._durable.discard(name)
            self._renamed.pop(name, None)

    def renamed(self, name: str) -> None:
        """No directory of a topic has its name any more, though a power cut may bring one back."""
        if name in self._noted and name not in self._durable:
            self._count += 1
            self._renamed[name] = self._count

    def sync_soon(self) -> None:
        """Have the names synced, which nobody waits for."""
        if self._renamed:
            root = self._broker.disk.directory("")
            self._broker.disk.sync_soon([root], partial(self._synced, self._count))

    def all_renamed(self) -> None:
        """None of them has a directory that has its name: at start-up. Raises `StorageFailed`."""
        if self._noted:
            self._broker.disk.sync_dir("")
            self._durable.update(self._noted)

    def sync(self, names: Iterable[str]) -> None:
        """Wait for that before one of these names is given again. Raises `StorageFailed`."""
        if not self._renamed.keys().isdisjoint(names):
            self._broker.disk.sync_dir("")
            self._synced(self._count, None)

    def settle(self) -> None:
        """Let the registry forget those that are over."""
        over = [name for name in self._durable if not self._broker.coordination.is_forgetting(name)]
        if not over:
            return
        registry = self._broker.registry
        try:
            noted = [path for name in over if registry.get(path := f"{NOTES}/{name}") is not None]
            registry.commit([Change(path, None) for path in noted])
            self._noted.difference_update(over)
            self._durable.difference_update(over)
        except NoEntry as gone:
            log.info("another broker was quicker to forget %s; what is left is forgotten later", gone)
        except StorageFailed as failure:
            log.error("the registry refused to forget deleted topics: %s", failure)

    def _synced(self, count: int, failure: StorageFailed | None) -> None:
        """The first `count` of them are durable: who was deleted once more since is not among these."""
        if failure is not None:
            log.error(
                "the names of deleted topics could not be synced: %s; the next start deletes what a power cut brings back", failure
            )
            return
        for name in [name for name, number in self._renamed.items() if number <= count]:
            del self._renamed[name]
            self._durable.add(name)
        self.settle()

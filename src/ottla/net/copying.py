"""The registry of a broker by itself, taken along into a cluster: read from its data directory, and written to ZooKeeper.

No broker may run on the directory, which stays as it is. The cluster's id comes last: a copy that is broken off is none, and can be
made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ottla.broker.membership import place
from ottla.broker.membership.membership import NotAMember
from ottla.broker.settings import BrokerSettings
from ottla.cluster import layout
from ottla.net.datadir import hold
from ottla.net.disk import RealDisk
from ottla.net.joining import completed, open_shared
from ottla.net.old_registry import open_registry
from ottla.net.posts import Posts
from ottla.ports import Change, Entries, SharedRegistry

AT_ONCE = 500
"""Entries in one transaction, as long as they are small."""

MOST_BYTES = 500_000
OF_SESSIONS = (layout.BROKERS, layout.CONTROLLER)


def copy_to_cluster(directory: str, settings: BrokerSettings) -> int:
    """Copy all but what is of a session; returns how many entries.

    Raises `DataDirectoryError`, `RegistryDamaged`, `StorageFailed`, `SettingError` and `NotAMember`.
    """
    with hold(directory):
        disk = RealDisk(directory, lambda call: call())
        try:
            own = open_registry(directory, disk)
            try:
                changes = [Change(path, value) for path, value in entries_of(own) if not path.startswith(OF_SESSIONS)]
            finally:
                own.close()
        finally:
            disk.close()
    asyncio.run(_written(changes, settings))
    return len(changes)


def entries_of(registry: Entries, above: str = "") -> Iterator[tuple[str, bytes]]:
    """All entries below a path, each after the one that it is in."""
    for name in registry.children(above or "/"):
        path = f"{above}/{name}"
        entry = registry.get(path)
        if entry is not None:
            yield path, entry.value
        yield from entries_of(registry, path)


async def _written(changes: list[Change], settings: BrokerSettings) -> None:
    registry = await open_shared(settings, Posts(asyncio.get_running_loop()))
    try:
        there = await completed(place.cluster_id(registry))
        if there is not None:
            raise NotAMember(
                f"{settings.registry_address} has the registry of a cluster already, {there}: name a path where there is none."
            )
        await completed(place.make_persistent(registry))
        for some in portions(sorted(changes, key=lambda change: change.path == layout.CLUSTER_ID)):
            await _commit(registry, some)
    finally:
        await asyncio.to_thread(registry.close)


async def _commit(registry: SharedRegistry, changes: list[Change]) -> None:
    await completed(registry.commit(changes))


def portions(changes: list[Change]) -> Iterator[list[Change]]:
    """In order, no more at a time than one transaction takes."""
    some: list[Change] = []
    size = 0
    for change in changes:
        needed = len(change.path) + len(change.value or b"")
        if some and (len(some) == AT_ONCE or size + needed > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(change)
        size += needed
    if some:
        yield some

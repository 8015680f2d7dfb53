"""The copy of a registry from one place to another: a data directory, ZooKeeper, or a host's SQLite.

No broker may run on either side. The source is not changed. The last write is the cluster's id in a shared registry, or
`meta.properties` in a data directory. Without this write the copy does not count, so an interrupted copy can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path

from ottla.broker.membership import place
from ottla.broker.settings import BrokerSettings, registry_settings
from ottla.broker.settings.broker_zookeeper import HOST_SCHEME
from ottla.cluster import layout
from ottla.cluster.registry_copy import (
    ROOTS,
    Carried,
    NotCarried,
    check_at_rest,
    check_free,
    for_cluster,
    for_one,
    is_carried,
    numbers_given,
)
from ottla.net.disk.disk import RealDisk
from ottla.net.sqlite.tables import FILE
from ottla.net.startup.cluster_start import open_shared
from ottla.net.startup.data_directory import has_registry, lock, make_lone, node_id_in
from ottla.net.startup.loop_calls import Posts, complete
from ottla.net.startup.old_registry import open_registry
from ottla.ports import Change, Entries, SharedRegistry
from ottla.registry.survey import BEFORE, finish, put_back
from ottla.registry.tree import StoredEntry, Tree

AT_ONCE = 500
"""The limit on the number of entries in one transaction. MOST_BYTES limits their size."""

MOST_BYTES = 500_000
READ_AT_ONCE = 1000
SHARED = ("zookeeper://", HOST_SCHEME)
"""The prefixes of a shared registry's address."""


def is_shared(where: str) -> bool:
    """Return whether `where` is the address of a shared registry. Any other value is a data directory."""
    return where.startswith(SHARED)


def copy(source: str, target: str, given: Mapping[str, str]) -> int:
    """Copy all permanent entries, and return their number.

    `given` are settings for the connection to ZooKeeper. Raises `NotCarried`, `DataDirectoryError`, `RegistryDamaged`,
    `StorageFailed`, `SettingError` and `NotAMember`.
    """
    if source == target or not (is_shared(source) or is_shared(target)):
        raise NotCarried(
            f"{source} and {target} are data directories: a data directory contains its registry, so move the directory itself."
            if source != target
            else f"{source} is both source and target: name another target."
        )
    host = source.removeprefix(HOST_SCHEME)
    if host != source and not Path(host, FILE).exists():
        raise NotCarried(
            f"{source} has no {FILE}, so it is no registry of a cluster: name the registry that brokers are started with."
        )
    carried = asyncio.run(_of_cluster(source, given)) if is_shared(source) else [*_of_one(source)]
    if is_shared(target):
        asyncio.run(_share(carried, target, given))
    else:
        _write_directory(carried, source, target)
    return len(carried)


def _of_one(directory: str) -> Iterator[Carried]:
    """Yield the entries of a lone broker's registry."""
    with lock(directory) as known, _disk(directory) as disk:
        if known.get("version") == "0" or not has_registry(directory):
            raise NotCarried(
                f"The data directory {directory} belongs to a broker of a cluster, whose registry is elsewhere: name the address "
                "of that registry instead."
            )
        with closing(open_registry(directory, disk)) as own:
            yield from (Carried(path, value, version) for path, value, version in entries_of(own) if is_carried(path))


def entries_of(registry: Entries, above: str = "") -> Iterator[tuple[str, bytes, int]]:
    """Yield all entries below a path with their versions, each after its parent."""
    for name in registry.children(above or "/"):
        path = f"{above}/{name}"
        entry = registry.get(path)
        if entry is not None:
            yield path, entry.value, entry.version
        yield from entries_of(registry, path)


async def _of_cluster(address: str, given: Mapping[str, str]) -> list[Carried]:
    """Return the permanent entries of the registry of a stopped cluster."""
    async with open_session(address, given) as registry:
        members = await complete(registry.list([layout.BROKERS]))
        check_at_rest(members[0] or (), address)
        found = [each for each in await read_all(registry) if is_carried(each.path)]
    if not any(each.path == layout.CLUSTER_ID or each.path.startswith(f"{layout.TOPICS}/") for each in found):
        raise NotCarried(f"{address} has no registry of a cluster: name the registry that its brokers are started with.")
    return found


async def read_all(registry: SharedRegistry) -> list[Carried]:
    """Return every entry that brokers can have created, ephemeral ones included, each after its parent."""
    found: dict[str, Carried] = {}
    level: Sequence[str] = ROOTS
    while level:
        below: list[str] = []
        for some in (level[start : start + READ_AT_ONCE] for start in range(0, len(level), READ_AT_ONCE)):
            entries = await complete(registry.read(some))
            names = await complete(registry.list(some))
            for path, entry, children in zip(some, entries, names, strict=True):
                if entry is not None:
                    found[path] = Carried(path, entry.value, entry.version)
                    below += (f"{path}/{name}" for name in children or ())
        level = [path for path in below if path not in found]
    return [*found.values()]


async def read_tree(address: str, given: Mapping[str, str]) -> Tree:
    """Return all entries of a shared registry. Raises `SettingError`, `NotAMember` and `StorageFailed`."""
    async with open_session(address, given) as registry:
        return tree_of(await read_all(registry))


async def _share(carried: list[Carried], address: str, given: Mapping[str, str]) -> None:
    async with open_session(address, given) as registry:
        there = await complete(place.cluster_id(registry))
        if there is not None:
            raise NotCarried(f"{address} already has the registry of a cluster, {there}: name an unused path.")
        members, topics = await complete(registry.list([layout.BROKERS, layout.TOPICS]))
        check_at_rest(members or (), address)
        check_free(topics or (), carried, address)
        await complete(place.make_persistent(registry))
        await _count_up(registry, numbers_given(carried))
        for some in portions(for_cluster(carried)):
            await complete(registry.commit(some))


async def _count_up(registry: SharedRegistry, wanted: int) -> None:
    """Advance the sequence of node ids to `wanted`, so that no new broker gets an id that is in use."""
    (entry,) = await complete(registry.read([layout.BROKER_SEQUENCE]))
    missing = wanted - (0 if entry is None else entry.version)
    for some in portions([Change(layout.BROKER_SEQUENCE, b"")] * missing):
        await complete(registry.commit(some))


@asynccontextmanager
async def open_session(address: str, given: Mapping[str, str]) -> AsyncIterator[SharedRegistry]:
    """Open a session with a shared registry, which ends with this context manager. Raises `SettingError` and `NotAMember`."""
    settings = BrokerSettings.parse({**given, **registry_settings(address)})
    registry = await open_shared(settings, Posts(asyncio.get_running_loop()))
    try:
        yield registry
    finally:
        await asyncio.to_thread(registry.close)


def _write_directory(carried: list[Carried], source: str, directory: str) -> None:
    """Convert the data directory of a broker in a cluster to the data directory of a lone broker with the entries `carried`."""
    with lock(directory) as known, _disk(directory) as disk:
        finish(disk)
        if known.get("version", "0") != "0":
            raise NotCarried(
                f"The data directory {directory} belongs to a single broker with its own registry: name that of a broker of "
                "the cluster."
            )
        there = next((layout.read(each.value).get("id") for each in carried if each.path == layout.CLUSTER_ID), None)
        own = known.get("cluster.id")
        if own is not None and there is not None and own != there:
            raise NotCarried(
                f"The data directory {directory} belongs to cluster {own}, and {source} to cluster {there}: name a data "
                "directory of that cluster."
            )
        node_id = node_id_in(known)
        assert node_id is not None, "a data directory that was held has a number"
        tree = tree_of(carried)
        changes = for_one(carried, tree, node_id)
        given = Tree()
        given.commit(changes)
        put_back(disk, given, 0, BEFORE)
        make_lone(directory, known)


def tree_of(carried: Iterable[Carried]) -> Tree:
    tree = Tree()
    for path, value, version in carried:
        tree.put(path, StoredEntry(value, version, False))
    return tree


def _disk(root: str) -> AbstractContextManager[RealDisk]:
    return closing(RealDisk(root, lambda call: call()))


def portions(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield the changes in order, in lists that are small enough for one transaction."""
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

"""The registry of old versions of Ottla: SQLite in the data directory. It is imported once, and its file is renamed and kept."""

from __future__ import annotations

import logging
import os
from contextlib import closing

from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import OLD_REGISTRY
from ottla.ports import RegistryDamaged
from ottla.registry.generations import is_begun
from ottla.registry.journal import JournalRegistry
from ottla.registry.tree import StoredEntry, Tree

log = logging.getLogger("ottla.net")

IMPORTED = OLD_REGISTRY + ".imported"


def open_registry(root: str, disk: RealDisk) -> JournalRegistry:
    """Open the registry of the data directory `root` through `disk`. Import the registry of an old version if there is one.

    Raises `StorageFailed`, and `RegistryDamaged` with a message of one sentence.
    """
    old = os.path.join(root, OLD_REGISTRY)
    if not os.path.exists(old):
        return JournalRegistry.open(disk)
    if is_begun(disk):
        registry = JournalRegistry.open(disk)
        log.warning("%s is no longer a file of the registry: it is kept as %s", OLD_REGISTRY, IMPORTED)
    else:
        registry = JournalRegistry.open(disk, _read(old))
        log.info("the registry was migrated from %s, which is kept as %s", OLD_REGISTRY, IMPORTED)
    disk.rename(OLD_REGISTRY, IMPORTED)
    return registry


def _read(path: str) -> Tree:
    """Read every entry. Checkpoint SQLite's write-ahead log into the file."""
    import sqlite3

    tree = Tree()
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            [state] = database.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                raise RegistryDamaged(f"{OLD_REGISTRY} is damaged ({state}): restore it, with its -wal file if there is one")
            if database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'entry'").fetchone() is None:
                return tree  # the broker ended before its first write
            for name, value, version, ephemeral in database.execute("SELECT path, value, version, ephemeral FROM entry"):
                tree.put(name, StoredEntry(value, version, bool(ephemeral)))
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise RegistryDamaged(f"{OLD_REGISTRY} cannot be read ({error}): restore it, with its -wal file if there is one") from error
    return tree

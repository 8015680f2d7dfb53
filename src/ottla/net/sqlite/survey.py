"""The survey of a host's registry, while its brokers run or not: the damaged entries. It changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ottla.net.sqlite.tables import FILE, FORMAT, entry_of
from ottla.ports import RegistryDamaged, StorageFailed
from ottla.registry.tree import StoredEntry, Tree

LOCKED_S = 10.0
MOST_FAULTS = 100
"""The limit on faults of the file as a whole; damaged entries are listed one by one."""


class HostSurvey(NamedTuple):
    """The intact entries, and each fault: (an entry's path or the file's name, reason). `processes` is the number of sessions."""

    tree: Tree
    faults: list[tuple[str, str]]
    processes: int


def survey(directory: str) -> HostSurvey:
    """Read the whole registry. Raises `RegistryDamaged` if that is impossible."""
    file = Path(directory, FILE)
    if not file.exists():
        raise RegistryDamaged(f"there is no {FILE}: name the directory that brokers are started with")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", LOCKED_S, uri=True, isolation_level=None)) as database:
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found > FORMAT:
                raise RegistryDamaged(f"{FILE} has format {found}, newer than {FORMAT}: use the newer version that wrote it")
            return _read(database)
    except sqlite3.Error as error:
        raise RegistryDamaged(f"{FILE} cannot be read ({error}): if it is damaged, restore a backup of its directory") from error


def _read(database: sqlite3.Connection) -> HostSurvey:
    database.execute("BEGIN")  # one snapshot, whatever is written meanwhile
    tree = Tree()
    faults = [(FILE, state) for (state,) in database.execute(f"PRAGMA quick_check({MOST_FAULTS})") if state != "ok"]
    for row in database.execute("SELECT path, value, version, created, crc, owner FROM entry ORDER BY path"):
        *stored, owner = row
        try:
            entry = entry_of(*stored)
        except StorageFailed as failure:
            faults.append((stored[0], failure.reason))
            continue
        if stored[0] != "/":
            tree.put(stored[0], StoredEntry(entry.value, entry.version, owner is not None))
    (processes,) = database.execute("SELECT count(*) FROM session").fetchone()
    return HostSurvey(tree, faults, processes)

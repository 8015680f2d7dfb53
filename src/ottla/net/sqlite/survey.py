"""The check of a host's registry for damaged entries. It changes nothing, and works while brokers run."""

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
"""The limit on the reported faults of the file as a whole. Damaged entries are all reported."""


class HostSurvey(NamedTuple):
    """The intact entries, and the faults: (path of a damaged entry or name of the file, reason).

    `processes` is the number of sessions.
    """

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
    database.execute("BEGIN")  # one snapshot, whatever is written during the check
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

"""The registry's file: its tables, its opening, and the detection of damage. It uses SQLite, but not the sessions' files.

The check for damaged entries changes nothing, and works while brokers run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from ottla.ports import Entry, RegistryAway, RegistryDamaged, StorageFailed
from ottla.registry.tree import StoredEntry, Tree

FILE: Final = "registry.sqlite"
FORMAT: Final = 1
"""SQLite's `user_version` of the file. A higher number means that a newer version of Ottla has written the file."""

TABLES: Final = (
    "CREATE TABLE entry (path TEXT PRIMARY KEY, parent TEXT, value BLOB NOT NULL, version INTEGER NOT NULL,"
    " created INTEGER NOT NULL, owner INTEGER, made INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "CREATE INDEX entry_parent ON entry (parent, path)",
    "CREATE INDEX entry_owner ON entry (owner) WHERE owner IS NOT NULL",
    "CREATE TABLE change (number INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL)",
    "CREATE INDEX change_number ON change (number)",
    "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, pid INTEGER NOT NULL,"
    " until_ms INTEGER NOT NULL)",
    "CREATE TABLE state (transactions INTEGER NOT NULL, forgotten INTEGER NOT NULL)",
    "INSERT INTO state VALUES (0, 0)",
    f"PRAGMA user_version = {FORMAT}",
)
"""The tables of the registry.

`entry.owner` is the session of an ephemeral entry; `entry.made` counts all sequential children that the entry ever had. `change`
stores the changes for watches; changes of transactions up to `state.forgotten` are deleted.
"""

REMEDY: Final = "restore a backup of its directory, or delete it together with the data directories of its brokers"


def open_tables(file: Path, busy_ms: int) -> sqlite3.Connection:
    """Open the registry, or create it. The caller must prevent other processes from opening it at the same time.

    Raises `RegistryDamaged` and `RegistryAway`.
    """
    with _understood(file):
        with suppress(OSError):  # SQLite's own error is clearer
            file.touch(0o600)  # no other user may read the file, which contains credentials
        database = sqlite3.connect(file, busy_ms / 1000, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found > FORMAT:
                raise RegistryDamaged(f"{file} has format {found}, newer than {FORMAT}: start the newer version that wrote it")
            if not found:
                _begin(database)
            _check(file, database)
        except BaseException:
            database.close()
            raise
    return database


@contextmanager
def _understood(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise error_of(file, error) from error
    except StorageFailed as failure:
        raise RegistryDamaged(f"{file} is damaged ({failure}): {REMEDY}") from failure


def error_of(file: Path, error: sqlite3.Error) -> RegistryAway | RegistryDamaged:
    """Return the exception for an SQLite error.

    `RegistryDamaged` means damage. `RegistryAway` means that the registry is unusable now, and a commit's outcome unknown.
    """
    if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return RegistryDamaged(f"{file} is damaged ({error}): {REMEDY}")
    return RegistryAway(str(file), f"it is not available ({error})")


def _begin(database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")
    for statement in TABLES:
        database.execute(statement)
    database.execute("INSERT INTO entry VALUES ('/', NULL, x'', 0, 0, NULL, 0, ?)", (checksum("/", b"", 0, 0),))
    database.execute("COMMIT")


def _check(file: Path, database: sqlite3.Connection) -> None:
    (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if state != "ok":
        raise RegistryDamaged(f"{file} is damaged ({state}): {REMEDY}")
    for row in database.execute("SELECT path, value, version, created, crc FROM entry"):
        entry_of(*row)


def checksum(path: str, value: bytes, version: int, created: int) -> int:
    """Return the checksum of an entry. SQLite itself has no checksums."""
    return crc32(value, crc32(f"{path} {version} {created} ".encode()))


def entry_of(path: str, value: bytes, version: int, created: int, crc: int) -> Entry:
    """Return a stored entry. Raises `StorageFailed` if its checksum is wrong."""
    if crc != checksum(path, value, version, created):
        raise StorageFailed(path, f"the entry was changed since it was written: {REMEDY}")
    return Entry(value, version, created)


LOCKED_S = 10.0
MOST_FAULTS = 100
"""The limit on the reported faults of the file as a whole. Damaged entries are all reported."""


class HostSurvey(NamedTuple):
    """The result of reading a registry: its intact entries, and its faults as (path of an entry or name of a file, reason).

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

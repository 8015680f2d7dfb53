"""The file of the registry: its tables, how it is opened, and what makes it unusable. Knows SQLite; knows no sessions' files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from ottla.ports import Entry, RegistryAway, RegistryDamaged, StorageFailed

FILE: Final = "registry.sqlite"
FORMAT: Final = 1
"""SQLite's user_version of a file; a newer one was written by a newer Ottla."""

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
"""`entry.owner` is the session that an ephemeral one ends with, `made` counts the sequential children that it ever had. `change`
has what watches tell of; its numbers up to `state.forgotten` are no longer there."""

REMEDY: Final = "put back a backup of its directory, or delete it together with the data directories of its brokers"


def opened(file: Path, busy_ms: int) -> sqlite3.Connection:
    """Open the registry, or begin one. Whoever calls keeps others from doing so meanwhile.

    Raises `RegistryDamaged` and `RegistryAway`.
    """
    with _understood(file):
        with suppress(OSError):  # SQLite says better why it cannot be opened
            file.touch(0o600)  # it has credentials: nobody else may read it
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
        raise failed(file, error) from error
    except StorageFailed as failure:
        raise RegistryDamaged(f"{file} is damaged ({failure}): {REMEDY}") from failure


def failed(file: Path, error: sqlite3.Error) -> RegistryAway | RegistryDamaged:
    """What an error of SQLite means: damage, or that the registry can't be used now, and whether a commit was made is unknown."""
    if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return RegistryDamaged(f"{file} is damaged ({error}): {REMEDY}")
    return RegistryAway(str(file), f"it can't be used now ({error})")


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
    """Of an entry: SQLite has none of its own."""
    return crc32(value, crc32(f"{path} {version} {created} ".encode()))


def entry_of(path: str, value: bytes, version: int, created: int, crc: int) -> Entry:
    """A stored entry. Raises `StorageFailed` where it is not as it was written."""
    if crc != checksum(path, value, version, created):
        raise StorageFailed(path, f"the entry is not as it was written: {REMEDY}")
    return Entry(value, version, created)

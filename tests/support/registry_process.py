"""A process that shares the registry of a host: makes one ephemeral entry, says so, and lives until it is ended.

python -m tests.support.registry_process DIRECTORY TIMEOUT_MS PATH [stands-still]

With the last word it stands still in the middle of its next change.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path

from ottla.net.sqlite.session import RegistryJob
from ottla.ports import NEW, Change
from tests.support.shared_users import HostUser


def stand_still(database: sqlite3.Connection) -> None:
    """Stop in the middle of a change."""
    database.execute("BEGIN IMMEDIATE")
    os.kill(os.getpid(), signal.SIGSTOP)


def main(directory: str, timeout_ms: str, path: str, *how: str) -> None:
    user = HostUser(Path(directory), int(timeout_ms)).begun()
    user.commit(Change(path, b"", NEW, ephemeral=True))
    print("made", flush=True)
    if how:
        user.host._session.submit(RegistryJob(partial(stand_still, user.host._store._database)), print)
    begun = len(user.events)
    user.run(lambda: len(user.events) > begun)
    print(" ".join(event.value for event in user.events), flush=True)
    user.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

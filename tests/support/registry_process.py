"""A process that shares the registry of a host: makes one ephemeral entry, says so, and lives until it is ended.

python -m tests.support.registry_process DIRECTORY TIMEOUT_MS PATH
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.ports import NEW, Change
from tests.support.shared_users import HostUser


def main(directory: str, timeout_ms: str, path: str) -> None:
    user = HostUser(Path(directory), int(timeout_ms)).begun()
    user.commit(Change(path, b"", NEW, ephemeral=True))
    print("made", flush=True)
    begun = len(user.events)
    user.run(lambda: len(user.events) > begun)
    print(" ".join(event.value for event in user.events), flush=True)
    user.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Small files that are replaced whole, so that a power cut leaves the old one or the new one. Knows the disk port."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ottla.ports import Disk, Steps, StorageFailed

NEW = ".new"
"""What the next content of a file is called until it is on stable storage."""


def replace_file(disk: Disk, name: str, data: bytes) -> Steps[None]:
    """Let `data` take the place of what a file holds, without waiting for the disk. Raises `StorageFailed`.

    The rename is not synced: the old content must be as true as the new one, for a power cut may bring it back.
    """
    file = disk.open(name + NEW, create=True)
    file.truncate(0)
    file.append([data])
    failure = yield partial(disk.sync_soon, [file])
    if failure is not None:
        with suppress(StorageFailed):
            disk.remove(name + NEW)  # a file that could not be synced never can be: the next one must be another
        raise failure
    file.close()
    disk.rename(name + NEW, name, sync=False)

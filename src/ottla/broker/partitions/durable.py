"""Small files that are replaced as a whole: a power failure leaves the old or the new content. Depends on the disk port."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ottla.ports import Disk, Steps, StorageFailed

NEW = ".new"
"""Suffix of a file's next content until it is on stable storage."""


def replace_file(disk: Disk, name: str, data: bytes) -> Steps[None]:
    """Replace the content of a file without blocking on the disk. Raise `StorageFailed`.

    The rename is not synced, so that a power failure can restore the old content. The old content must therefore remain correct.
    """
    file = disk.open(name + NEW, create=True)
    file.truncate(0)
    file.append([data])
    failure = yield partial(disk.sync_soon, [file])
    if failure is not None:
        with suppress(StorageFailed):
            disk.remove(name + NEW)  # a file whose sync failed can never be synced, so the next attempt needs a new file
        raise failure
    file.close()
    disk.rename(name + NEW, name, sync=False)

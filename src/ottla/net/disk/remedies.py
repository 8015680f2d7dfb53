"""The sentences that say what a person can do about a failed call to the disk."""

from __future__ import annotations

import errno
import os
from typing import Final

from ottla.ports import StorageFailed

MINE = "let this user read and write it"
REMEDIES: Final = {
    os.strerror(number): sentence
    for number, sentence in {
        errno.EACCES: MINE,
        errno.EPERM: f'{MINE}, and see whether it has the attribute "immutable" (lsattr)',
        errno.EROFS: "mount its file system for writing",
        errno.EISDIR: "move that directory away, since a file belongs there",
        errno.ENOTDIR: "move that file away, since a directory belongs there",
        errno.EIO: "restore it from a backup, on a disk that works",
    }.items()
}


def remedy_of(failure: StorageFailed) -> str:
    """Return what to do about a failure, as the middle of a sentence that names the file."""
    return REMEDIES.get(failure.reason, "mend it")

"""The exceptions of a log whose synced data cannot be read."""

from __future__ import annotations

from ottla.ports import StorageFailed


class Damaged(StorageFailed):
    """Synced data cannot be read any more. The partition goes offline, and its files are left unchanged.

    `path` is the partition's directory, `file` the damaged file in it, `position` the byte at which the damage begins, and
    `sentence` describes the damage.
    """

    def __init__(self, path: str, file: str, position: int, sentence: str) -> None:
        super().__init__(
            f"{path}/{file}",
            f"at byte {position}: {sentence} Restore the file, or cut out the unreadable part with `ottla log check --repair`.",
        )
        self.path = path
        self.file = file
        self.position = position
        self.sentence = sentence


class Astray(Damaged):
    """An index entry does not point to the end of its batch, so either the index or the batch is wrong."""


class Vanished(StorageFailed):
    """The files of a log were removed while it was open: appends to them would be lost."""

"""The one way a log says that data it had promised is not what it was. Knows nothing else."""

from __future__ import annotations

from ottla.ports import StorageFailed


class Damaged(StorageFailed):
    """Data that had been synced cannot be read any more: the partition goes offline, and nothing of it is touched.

    `path` is the partition's directory, `file` the file in it, `position` the byte where trouble begins, `sentence` what it is.
    """

    def __init__(self, path: str, file: str, position: int, sentence: str) -> None:
        super().__init__(
            f"{path}/{file}",
            f"at byte {position}: {sentence} Restore the file, or give up what cannot be read with `ottla log check --repair`.",
        )
        self.path = path
        self.file = file
        self.position = position
        self.sentence = sentence

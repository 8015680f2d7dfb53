"""The copy of a replica's directory that becomes the replica: files are copied while they are written. Depends on the disk port.

Each `update` copies what has changed since the last one and syncs it. `finish` copies the last appends in one step, and fails if
anything else has changed. Bytes of files are copied, so that the format of a file does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from ottla.log.names import LOG, MOVES, parse_file_name
from ottla.ports import Disk, File, Steps, StorageFailed, Syncable

SLICE_BYTES = 128 * 1024
"""Bytes copied between two pauses, a fraction of a millisecond of work."""
SYNCED_AT_ONCE_BYTES = 16 << 20
"""Bytes of a file copied between two of its syncs, so that no sync writes gigabytes at once."""
LAST_BYTES = 4 << 20
"""Upper limit of the bytes that `finish` copies, a few milliseconds of work."""

Pace = Callable[[int], Steps[None]]
"""Pauses after some copied bytes."""


class CopiedFile:
    """A file and its copy. `size` bytes are copied, as they were when the file had been rewritten `rewrites` times."""

    __slots__ = ("copy", "file", "rewrites", "size")

    def __init__(self, file: File, copy: File) -> None:
        self.file = file
        self.copy = copy
        self.rewrites = file.rewrites
        self.size = 0


class ReplicaCopy:
    """The copy, in the directory `path`, of the directory `source`. Methods raise `StorageFailed`.

    The batches below `end_offset` are copied. The objects of the source's files are kept, since they count rewrites.
    """

    def __init__(self, disk: Disk, source: str, path: str) -> None:
        self.path = path
        self.end_offset = 0
        self._disk = disk
        self._source = source
        self._files: dict[str, CopiedFile] = {}
        self._unsynced: dict[File, None] = {}

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes of segments that are copied."""
        return sum(known.size for name, known in self._files.items() if name.endswith(LOG))

    def begin(self) -> None:
        """Make the directory, with the number of the moves of the replica up to this one."""
        self._disk.make_dir(self.path)
        self._disk.write_file(f"{self.path}/{MOVES}", b"%d\n" % (count_moves(self._disk, self._source) + 1), sync=False)
        self._unsynced[self._disk.open(f"{self.path}/{MOVES}")] = None

    def update(self, end_offset: int, pace: Pace) -> Steps[int]:
        """Copy and sync everything that has changed. Return the number of copied bytes. `end_offset` is the log's end now."""
        copied = 0
        for name in self._matched_names():
            if name.endswith(LOG) and (base := parse_file_name(name)) is not None:
                self.end_offset = max(self.end_offset, base[0])
            try:
                copied += yield from self._copy(name, pace)
            except StorageFailed:
                if self._disk.exists(f"{self._source}/{name}"):
                    raise
        yield from self._sync([self._disk.directory(self.path)])
        self.end_offset = end_offset
        return copied

    def finish(self, growing: Collection[Syncable]) -> bool:
        """Copy the last appends to `growing`, the files that are synced before their appends are acknowledged.

        Return False if other changes remain to be copied, or too many. The copied appends are not synced.
        """
        if self._names() != sorted(self._files):
            return False
        grown: list[CopiedFile] = []
        for name, known in self._files.items():
            file = self._disk.open(f"{self._source}/{name}")
            if file is not known.file or file.rewrites != known.rewrites:
                return False
            if file.size != known.size:
                if file not in growing:
                    return False
                grown.append(known)
        if sum(known.file.size - known.size for known in grown) > LAST_BYTES:
            return False
        for known in grown:
            self._append(known, known.file.size)
        return all(known.size == known.file.size for known in grown)

    def _names(self) -> list[str]:
        return [name for name in self._disk.list(self._source) if name != MOVES]

    def _matched_names(self) -> list[str]:
        """Rename and remove files of the copy as those of the source were. Return the names of the source's files."""
        names = self._names()
        renamed: dict[str, CopiedFile] = {}
        for name, known in list(self._files.items()):
            to = known.file.path.rpartition("/")[2]
            if to == name and to in names:
                continue
            del self._files[name]
            if to in names and to not in self._files and self._disk.open(f"{self._source}/{to}") is known.file:
                self._disk.rename(f"{self.path}/{name}", f"{self.path}/{to}.renamed", sync=False)
                renamed[to] = known
            else:
                self._unsynced.pop(known.copy, None)
                self._disk.remove(f"{self.path}/{name}")
        for to, known in renamed.items():
            self._disk.rename(f"{self.path}/{to}.renamed", f"{self.path}/{to}", sync=False)
            self._files[to] = known
        return names

    def _copy(self, name: str, pace: Pace) -> Steps[int]:
        """Copy a file up to its present size, or from where it has grown. Return the number of copied bytes."""
        file = self._disk.open(f"{self._source}/{name}")
        known = self._files.get(name)
        if known is None or known.file is not file or known.rewrites != file.rewrites:
            known = self._files[name] = self._begin_file(name, file)
        start = known.size
        synced, end = known.size, file.size
        while known.size < end and known.rewrites == file.rewrites:
            before = known.size
            self._append(known, min(end, before + SLICE_BYTES))
            if known.size - synced >= SYNCED_AT_ONCE_BYTES:
                yield from self._sync([])
                synced = known.size
            yield from pace(known.size - before)
        return known.size - start

    def _begin_file(self, name: str, file: File) -> CopiedFile:
        copy = self._disk.open(f"{self.path}/{name}", create=True)
        if copy.size:
            copy.truncate(0)
        self._unsynced[copy] = None
        return CopiedFile(file, copy)

    def _append(self, known: CopiedFile, end: int) -> None:
        data = known.file.read(known.size, end - known.size)
        if not data:
            raise StorageFailed(known.file.path, f"it ends before byte {end}")
        self._unsynced[known.copy] = None
        known.copy.append([data])
        known.size += len(data)

    def _sync(self, more: list[Syncable]) -> Steps[None]:
        failure = yield partial(self._disk.sync_soon, [*self._unsynced, *more])
        if failure is not None:
            raise failure
        self._unsynced.clear()


def count_moves(disk: Disk, path: str) -> int:
    """Return how often a replica was moved, by its directory; 0 if the number is missing or damaged."""
    if not disk.exists(f"{path}/{MOVES}"):
        return 0
    data = disk.read_file(f"{path}/{MOVES}").strip()
    return int(data) if data.isdigit() else 0

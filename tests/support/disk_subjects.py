"""The two disks, the real one and the simulated one, which can be told to fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Queue
from typing import Any, Protocol

import pytest

from ottla.net.disk.disk import RealDisk
from ottla.ports import Disk, File, StorageFailed, Syncable
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES, SimDisk

REASONS = {IO_ERROR: errno.EIO, NO_SPACE: errno.ENOSPC, TOO_MANY_FILES: errno.EMFILE}
OPENING = ("open",)
FALLIBLE = (
    *("open", "pread", "pwrite", "pwritev", "ftruncate", "fdatasync", "fsync", "fstat", "stat", "statvfs"),
    *("listdir", "mkdir", "replace", "unlink"),
)


class FaultySystem:
    """The system's calls, of which chosen ones fail: the n-th from now on. `synced`: the directories that were, by their paths."""

    def __init__(self) -> None:
        self.calls = 0
        self.synced: set[str] = set()
        self._failing: dict[int, int] = {}

    def fail(self, after: int, code: int, count: int) -> None:
        self._failing.update((self.calls + after + 1 + number, code) for number in range(count))

    def heal(self) -> None:
        self._failing.clear()

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in FALLIBLE:
            return real

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            code = self._failing.pop(self.calls, 0)
            if code == errno.EMFILE and name not in OPENING:
                self._failing.setdefault(self.calls + 1, code)
            elif code:
                raise OSError(code, os.strerror(code))
            if name == "fsync":
                self.synced.add(os.readlink(f"/proc/self/fd/{arguments[0]}"))
            return real(*arguments, **named)

        return call


class Subject(Protocol):
    """A disk that can be told to fail."""

    @property
    def disk(self) -> Disk: ...

    def fail(self, after: int, reason: str, count: int = 1) -> None: ...

    def heal(self) -> None: ...

    def outcome(self, *files: Syncable) -> StorageFailed | None:
        """What became of a sync that was asked for."""

    def asked(self, *files: Syncable) -> Callable[[], StorageFailed | None]:
        """Ask for a sync that is not made before what is returned is called, which says what became of it."""

    def settle(self, outcomes: Sequence[object]) -> None:
        """Go on until there is an outcome of what was asked for."""

    def close_handles(self) -> None:
        """Let handles go that were not used lately."""

    def kill(self) -> None:
        """The process ends, and another one uses the disk."""

    def elsewhere(self) -> str:
        """Another directory for names, outside of the data directory where the disk can have that."""

    def assert_stable(self, path: str) -> None:
        """The name of a file is on stable storage, and so are those of its directories."""

    def end(self) -> None: ...


class Real:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._calls: Queue[Callable[[], None]] = Queue()
        self._start()

    def _start(self) -> None:
        self._system = FaultySystem()
        self._elsewhere = self._root.with_name(f"{self._root.name}-elsewhere")
        self._elsewhere.mkdir(exist_ok=True)
        system, log_dirs = self._system, [str(self._elsewhere)]
        self.disk = RealDisk(str(self._root), self._calls.put, max_open_files=4, system=system, log_dirs=log_dirs)

    def fail(self, after: int, reason: str, count: int = 1) -> None:
        self._system.fail(after, REASONS[reason], count)

    def heal(self) -> None:
        self._system.heal()

    def outcome(self, *files: Syncable) -> StorageFailed | None:
        return self.asked(*files)()

    def asked(self, *files: Syncable) -> Callable[[], StorageFailed | None]:
        outcomes: list[StorageFailed | None] = []
        held = list[Any]()
        worker = self.disk._worker
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "sync", lambda *asked, **named: held.append((asked, named)))
            self.disk.sync_soon(files, outcomes.append)

        def go_on() -> StorageFailed | None:
            asked, named = held.pop()
            worker.sync(*asked, **named)
            self._calls.get(timeout=10)()
            return outcomes[0]

        return go_on

    def settle(self, outcomes: Sequence[object]) -> None:
        while not outcomes:
            self._calls.get(timeout=10)()

    def close_handles(self) -> None:
        for number in range(12):
            self.disk.open(f"other-{number}", create=True)

    def kill(self) -> None:
        self.disk.close()
        self._start()

    def elsewhere(self) -> str:
        return str(self._elsewhere)

    def assert_stable(self, path: str) -> None:
        above = (self._root / path).parent
        while above != self._root.parent:
            assert str(above) in self._system.synced
            above = above.parent

    def end(self) -> None:
        self._system.heal()
        self.disk.close()


class Simulated:
    def __init__(self) -> None:
        self.disk = SimDisk()

    def fail(self, after: int, reason: str, count: int = 1) -> None:
        self.disk.fail(after, reason, count=count)

    def heal(self) -> None:
        self.disk.heal()

    def outcome(self, *files: Syncable) -> StorageFailed | None:
        return self.asked(*files)()

    def asked(self, *files: Syncable) -> Callable[[], StorageFailed | None]:
        outcomes: list[StorageFailed | None] = []
        self.disk.sync_soon(files, outcomes.append)
        assert outcomes == [], "never from within the call"

        def go_on() -> StorageFailed | None:
            self.disk.run_syncs()
            return outcomes[0]

        return go_on

    def settle(self, outcomes: Sequence[object]) -> None:
        while not outcomes:
            assert self.disk.run_syncs()

    def close_handles(self) -> None:
        self.disk.close_handles()

    def kill(self) -> None:
        self.disk.kill()

    def elsewhere(self) -> str:
        self.disk.make_dir("elsewhere")
        self.disk.sync_dir("elsewhere")
        return "elsewhere"

    def assert_stable(self, path: str) -> None:
        entry: Any = self.disk._root
        for name in path.split("/"):
            entry = entry.stable.get(name)
            assert entry, f"{name} of {path} is not stable"

    def end(self) -> None:
        self.heal()


def written(disk: Disk, path: str, data: bytes = b"data") -> File:
    file = disk.open(path, create=True)
    file.append([data])
    return file


def refused(call: Callable[[], object]) -> StorageFailed:
    with pytest.raises(StorageFailed) as caught:
        call()
    return caught.value


# Files

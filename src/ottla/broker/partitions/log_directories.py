"""The log directories (`log.dirs`), and in which of them each partition is. Depends on the disk port and names of partitions.

The disk finds the files of a partition by its name, in whichever log directory it is. The data directory is the first log directory
and has the path "". Its checkpoints cover all partitions, so that an entry does not depend on where a partition is. A broker with
one log directory keeps no list of partitions here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from ottla.broker.partitions.replica_copy import count_moves
from ottla.errors import SettingError
from ottla.log.name_places import joined
from ottla.ports import Disk, Steps, StorageFailed

log = logging.getLogger("ottla.broker")

CORDONED = "cordoned.log.dirs"
EVERY = "*"
"""The entry of `cordoned.log.dirs` that stands for all directories."""

MOST_PREFERRED = 10_000
"""Upper limit of partitions that do not exist and have a wanted directory."""

_PARTITION = re.compile(r".+-\d+")


def _none_cordoned() -> Collection[str]:
    return ()


class LogDirectories:
    """The log directories (`log.dirs`) of this broker, and the log directory in which each partition is."""

    def __init__(
        self, disk: Disk, further: Sequence[str] = (), name: str = "", cordoned: Callable[[], Collection[str]] = _none_cordoned
    ) -> None:
        """Create the list of log directories. `name` is the absolute path of the data directory, `further` has those of the others.

        `cordoned` returns the value of the setting `cordoned.log.dirs`.
        """
        self._disk = disk
        self.paths = ("", *further)
        self._name = name
        self._cordoned = cordoned
        self._outdated: list[tuple[str, str]] = []
        self._places: dict[str, str] = {}
        self._preferred: dict[str, str] = {}
        self._counts = dict.fromkeys(self.paths, 0)
        self._unsynced = dict.fromkeys(self.paths, 0)
        self._removals = 0

    def load(self) -> None:
        """Find the log directory of every partition.

        Raises `StorageFailed` if the disk fails, or a partition is in two log directories.
        """
        if len(self.paths) == 1:
            return
        self._places.clear()
        self._counts = dict.fromkeys(self.paths, 0)
        found: dict[str, list[str]] = {}
        for path, name in self.present():
            found.setdefault(name, []).append(path)
        for name, paths in found.items():
            self._put(name, paths[0] if len(paths) == 1 else self._newest(name, paths))

    def _newest(self, name: str, paths: Sequence[str]) -> str:
        """Return which of several directories of a partition was moved last; a crash has left the others.

        Raises `StorageFailed` if no move explains that there are several.
        """
        self._disk.put(name, "")  # so that a path means the directory that it seems to be
        *others, last = sorted(paths, key=lambda path: count_moves(self._disk, joined(path, name)))
        here, there = joined(last, name), joined(others[-1], name)
        if count_moves(self._disk, here) == count_moves(self._disk, there):
            raise StorageFailed(here, f"this partition is also in {there}: move the wrong one elsewhere")
        self._outdated += [(path, name) for path in others]
        return last

    def remove_outdated(self) -> None:
        """Remove former directories of moved replicas that a crash has left. Raises `StorageFailed`."""
        while self._outdated:
            path, name = self._outdated[-1]
            self._disk.sync_dir(name)  # otherwise a power cut could take the newer one
            self._disk.put(name, path)
            self._disk.remove_tree(name)
            self._disk.put(name, self._places[name])
            self._outdated.pop()

    def present(self) -> Iterator[tuple[str, str]]:
        """Yield (path of the log directory, name) of each directory whose name is that of a partition. Raises `StorageFailed`."""
        for path in self.paths:
            yield from ((path, name) for name in self._disk.list(path) if _PARTITION.fullmatch(name))

    def path_named(self, name: str) -> str | None:
        """Return the path of the log directory with this absolute path, or None."""
        return next((path for path in self.paths if self.name_of(path) == name), None)

    def name_of(self, path: str) -> str:
        """Return the absolute path of a log directory, which clients see."""
        return path or self._name

    def is_cordoned(self, path: str) -> bool:
        """Return whether a log directory is cordoned (KIP-1066).

        It then gets no new partitions while another log directory can get them.
        """
        cordoned = self._cordoned()
        return EVERY in cordoned or self.name_of(path) in cordoned

    @property
    def are_cordoned(self) -> bool:
        """Return whether all log directories are cordoned, so that new replicas come here only by manual assignment."""
        return all(map(self.is_cordoned, self.paths))

    def check_cordons(self, entries: Collection[str]) -> None:
        """Check the entries of `cordoned.log.dirs`. Raises `SettingError`."""
        if EVERY in entries:
            if len(entries) > 1:
                raise SettingError(f"When {CORDONED} is set to {EVERY}, it must not contain other values: remove them.")
            return
        names = [self.name_of(path) for path in self.paths]
        if missing := [entry for entry in entries if entry not in names]:
            sentence = f"All entries in {CORDONED} must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}"
            raise SettingError(f"{sentence}; use some of {', '.join(names)}.")

    def place_of(self, name: str) -> str:
        """Return the path of the log directory that contains a partition; the first log directory if none contains it."""
        return self._places.get(name, "")

    def place(self, name: str) -> None:
        """Create a partition's directory, unless it exists, in the log directory with the fewest partitions.

        A log directory in which no directory can be created, as on a failed disk, is skipped. Raises `StorageFailed` if no other is
        left.
        """
        if len(self.paths) > 1 and name not in self._places:
            not_cordoned = [path for path in self.paths if not self.is_cordoned(path)]
            paths = sorted(not_cordoned or self.paths, key=self._counts.__getitem__)
            preferred = self._preferred.pop(name, None)
            self._put(name, self._make(name, paths if preferred is None else [preferred, *paths]))

    def prefer(self, name: str, path: str) -> None:
        """Place a partition in this log directory if it is created later. The oldest wishes are forgotten if there are many."""
        self._preferred[name] = path
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def _make(self, name: str, paths: Sequence[str]) -> str:
        """Create a partition's directory in one of the log directories `paths`: the first in which that succeeds.

        Return its path.
        """
        for path in paths[:-1]:
            try:
                self._make_in(path, name)
                return path
            except StorageFailed as failure:
                log.error("%s: %s is put into another log directory", failure, name, extra={"cause": "log.dirs"})
        self._make_in(paths[-1], name)
        return paths[-1]

    def _make_in(self, path: str, name: str) -> None:
        self._disk.room(path)  # fails below an unmounted disk, where the next start would not find the partition
        self._disk.make_dir(joined(path, name))

    def forget(self, name: str) -> None:
        """Record that a partition's directory is deleted or renamed."""
        if name in self._places:
            path = self._places.pop(name)
            self._disk.put(name, "")
            self._counts[path] -= 1
            self._removals += 1
            self._unsynced[path] = self._removals

    def record_move(self, name: str, path: str) -> None:
        """Record that a partition is in another log directory now, and that its name in the former one will be removed."""
        self.forget(name)
        self._put(name, path)

    def sync_removals(self) -> Steps[StorageFailed | None]:
        """Make the removal of partitions' directories durable. Return the disk's failure, or None.

        A previous process may have removed directories without a sync, so the first call syncs all log directories.
        """
        asked = dict(self._unsynced) if len(self.paths) > 1 else {"": 0}
        failure = (yield partial(self._disk.sync_soon, [self._disk.directory(path) for path in asked])) if asked else None
        if failure is None:
            self._unsynced = {path: last for path, last in self._unsynced.items() if asked.get(path) != last}
        return failure

    def _put(self, name: str, path: str) -> None:
        self._disk.put(name, path)
        self._places[name] = path
        self._counts[path] += 1

"""The watches of entries: the callbacks for each entry's next change. It uses the numbers of transactions, but no files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.net.sqlite.store import Touched

Changed = Callable[[str], None]
Watched = tuple[str, str]
"""(kind of watch, path)"""


class WatchTable:
    """The watches of one process.

    Each is called once, for the first change after the transaction up to which its owner has read.
    """

    def __init__(self) -> None:
        self._watches: dict[Watched, dict[Changed, int]] = {}

    def leave(self, kind: str, paths: Sequence[str], changed: Changed, seen: int) -> None:
        """Add watches of a reader that has seen transaction `seen`. An equal watch that exists is kept."""
        for path in paths:
            self._watches.setdefault((kind, path), {}).setdefault(changed, seen)

    def touched(self, changes: Sequence[Touched]) -> Iterator[tuple[Changed, str]]:
        """Remove and yield the watches that these changes affect, in order."""
        for number, kind, path in changes:
            watches = self._watches.get((kind, path), {})
            due = [changed for changed, seen in watches.items() if seen < number]
            for changed in due:
                del watches[changed]
                yield changed, path
            if due and not watches:
                del self._watches[kind, path]

    def all(self) -> Iterator[tuple[Changed, str]]:
        """Remove and yield every watch, because changes may have been missed."""
        watches, self._watches = self._watches, {}
        for (_, path), waiting in watches.items():
            for changed in waiting:
                yield changed, path

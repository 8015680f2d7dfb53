"""Who is to be told of which entry's next change. Pure; knows the numbers of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.net.sqlite.store import Touched

Changed = Callable[[str], None]
Watched = tuple[str, str]
"""(kind, path)"""


class WatchTable:
    """Each watch is told once, of the first change after the transaction whose outcome its owner has read."""

    def __init__(self) -> None:
        self._watches: dict[Watched, dict[Changed, int]] = {}

    def leave(self, kind: str, paths: Sequence[str], changed: Changed, seen: int) -> None:
        """Note watches of those who have read what transaction `seen` left. An earlier watch of the same function stays."""
        for path in paths:
            self._watches.setdefault((kind, path), {}).setdefault(changed, seen)

    def touched(self, changes: Sequence[Touched]) -> Iterator[tuple[Changed, str]]:
        """Take out, and return in order, those that are to be told of these changes."""
        for number, kind, path in changes:
            watches = self._watches.get((kind, path), {})
            due = [changed for changed, seen in watches.items() if seen < number]
            for changed in due:
                del watches[changed]
                yield changed, path
            if due and not watches:
                del self._watches[kind, path]

    def all(self) -> Iterator[tuple[Changed, str]]:
        """Take out and return every watch: what it is to tell may have been missed."""
        watches, self._watches = self._watches, {}
        for (_, path), waiting in watches.items():
            for changed in waiting:
                yield changed, path

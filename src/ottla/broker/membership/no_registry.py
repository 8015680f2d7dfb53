"""The registry of its own that a broker of a cluster does not have: nothing is in it, and whatever is put into it is refused."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.ports import Change, CommitSteps, Entry, StorageFailed


class NoRegistry:
    """Implements `ottla.ports.Registry` for rooms that keep something in the registry of a lone broker."""

    commits = 0

    def get(self, path: str) -> Entry | None:
        """There is none."""
        return None

    def children(self, path: str) -> list[str]:
        """There are none."""
        return []

    def commit(self, changes: Sequence[Change]) -> None:
        """Raises `StorageFailed` unless there is nothing to change."""
        if changes:
            raise StorageFailed(changes[0].path, "a broker of a cluster keeps nothing of this in a registry of its own")

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        """As `commit`."""
        self.commit(changes)
        yield None

    def close(self) -> None: ...

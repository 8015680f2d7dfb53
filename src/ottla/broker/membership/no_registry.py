"""An empty registry that refuses changes, for a broker of a larger cluster, which has no registry of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.ports import Change, CommitSteps, Entry, StorageFailed


class NoRegistry:
    """Implementation of `ottla.ports.Registry` for components that use the registry of a single broker."""

    commits = 0

    def get(self, path: str) -> Entry | None:
        """Return None, because there is no entry."""
        return None

    def children(self, path: str) -> list[str]:
        """Return an empty list, because there are no entries."""
        return []

    def commit(self, changes: Sequence[Change]) -> None:
        """Raise `StorageFailed` unless there is nothing to change."""
        if changes:
            raise StorageFailed(changes[0].path, "a broker of a cluster keeps nothing of this in a registry of its own")

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        """Raise `StorageFailed` unless there is nothing to change, as `commit` without steps does."""
        self.commit(changes)
        yield None

    def close(self) -> None: ...

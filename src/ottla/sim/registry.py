"""A registry in memory for tests and simulations, with sessions, and with commits that a rival's commit precedes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ottla.ports import Change, CommitSteps, Entry
from ottla.registry.tree import Tree, parents, removals


class MemoryTree(Tree):
    """The entries of a registry, shared by all its sessions. They live as long as this object.

    To share a registry, each broker opens a `MemoryRegistry` on one tree. `owners` are the sessions of the ephemeral entries.
    """

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, int] = {}
        self.sessions = 0
        self.commits = 0


class MemoryRegistry:
    """One session on a tree; implements `ottla.ports.Registry`. Closing the session removes its ephemeral entries."""

    def __init__(self, tree: MemoryTree | None = None) -> None:
        self.tree = MemoryTree() if tree is None else tree
        self.tree.sessions += 1
        self._session = self.tree.sessions
        self._rivals: deque[Callable[[MemoryRegistry], None]] = deque()

    def lose_race(self, rival: Callable[[MemoryRegistry], None]) -> None:
        """Call `rival` with its own session just before the next commit.

        If this is called several times, each rival gets one commit.
        """
        self._rivals.append(rival)

    @property
    def commits(self) -> int:
        return self.tree.commits

    def get(self, path: str) -> Entry | None:
        return self.tree.get(path)

    def children(self, path: str) -> list[str]:
        return self.tree.children(path)

    def commit(self, changes: Sequence[Change]) -> None:
        if self._rivals:
            self._rivals.popleft()(MemoryRegistry(self.tree))
        self.tree.commit(changes)
        self.tree.commits += 1
        if self.tree.owners or any(change.ephemeral for change in changes):
            ephemeral = [path for path, entry in self.tree.entries() if entry.ephemeral]
            self.tree.owners = {path: self.tree.owners.get(path, self._session) for path in ephemeral}

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        yield None
        self.commit(changes)

    def close(self) -> None:
        """End the session, and remove its ephemeral entries."""
        own = {path for path, owner in self.tree.owners.items() if owner == self._session}
        self.commit(removals(path for path in own if own.isdisjoint(parents(path))))

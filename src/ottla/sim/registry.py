"""A registry in memory for tests and simulations, with sessions, and with commits that a rival's commit precedes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ottla.ports import Change, CommitSteps, Entry, NoEntry
from ottla.sim.entry_versions import check_version


@dataclass(slots=True)
class _Node:
    value: bytes
    version: int
    owner: int | None


class MemoryTree:
    """The entries of a registry, shared by all its sessions. They live as long as this object.

    To share a registry, each broker opens a `MemoryRegistry` on one tree.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
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
        node = self.tree.nodes.get(path)
        return None if node is None else Entry(node.value, node.version)

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(name for node in self.tree.nodes if node.startswith(prefix) and "/" not in (name := node[len(prefix) :]))

    def commit(self, changes: Sequence[Change]) -> None:
        if self._rivals:
            self._rivals.popleft()(MemoryRegistry(self.tree))
        nodes = dict(self.tree.nodes)
        for change in changes:
            _apply(nodes, change, self._session)
        self.tree.nodes = nodes
        self.tree.commits += 1

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        yield None
        self.commit(changes)

    def close(self) -> None:
        """End the session, and remove its ephemeral entries."""
        own = {path for path, node in self.tree.nodes.items() if node.owner == self._session}
        self.commit([Change(path, None) for path in own if own.isdisjoint(_above(path))])


def _apply(nodes: dict[str, _Node], change: Change, session: int) -> None:
    path, value, version, ephemeral, *_ = change
    node = nodes.get(path)
    check_version(path, None if node is None else node.version, version)
    if value is None:
        if node is None:
            raise NoEntry(path)
        for gone in [name for name in nodes if name == path or name.startswith(path + "/")]:
            del nodes[gone]
    elif node is None:
        _make_parents(nodes, path)
        nodes[path] = _Node(value, 0, session if ephemeral else None)
    else:
        nodes[path] = _Node(value, node.version + 1, node.owner)


def _above(path: str) -> Iterator[str]:
    """Yield the paths above this one, beginning with its parent. Removing an entry removes everything below it."""
    while path := path.rpartition("/")[0]:
        yield path


def _make_parents(nodes: dict[str, _Node], path: str) -> None:
    for parent in _above(path):
        nodes.setdefault(parent, _Node(b"", 0, None))

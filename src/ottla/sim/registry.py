"""A registry in memory, for tests and simulations: sessions that end, watches that fire, faults to order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.ports import NEW, Change, Entry, EntryExists, NoEntry, VersionConflict


@dataclass(slots=True)
class _Node:
    value: bytes
    version: int
    owner: int | None


class MemoryTree:
    """What the sessions share: the entries, as durable as the object. Several brokers open a `MemoryRegistry` on one tree."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Node] = {}
        self.watches: list[tuple[int, str, Callable[[str], None]]] = []
        self.sessions = 0

    def changed(self, paths: Sequence[str]) -> None:
        """Tell every watch of the changes at or below its path, once the tree is whole again."""
        for path in paths:
            for _, watched, call in tuple(self.watches):
                if path == watched or path.startswith(watched.rstrip("/") + "/"):
                    call(path)


class MemoryRegistry:
    """One session on a tree; implements `ottla.ports.Registry`. Closing it ends the session: its ephemeral entries go."""

    def __init__(self, tree: MemoryTree | None = None) -> None:
        self.tree = MemoryTree() if tree is None else tree
        self.tree.sessions += 1
        self._session = self.tree.sessions
        self._rivals: deque[Callable[[MemoryRegistry], None]] = deque()

    def lose_race(self, rival: Callable[[MemoryRegistry], None]) -> None:
        """Let somebody be quicker: `rival` is called with a session of its own just before the next commit; several take turns."""
        self._rivals.append(rival)

    def get(self, path: str) -> Entry | None:
        node = self.tree.nodes.get(path)
        return None if node is None else Entry(node.value, node.version)

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(name for node in self.tree.nodes if node.startswith(prefix) and "/" not in (name := node[len(prefix) :]))

    def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> None:
        self.commit((Change(path, value, NEW, ephemeral),))

    def put(self, path: str, value: bytes, *, version: int | None = None) -> int:
        self.commit((Change(path, value, version),))
        return self.tree.nodes[path].version

    def delete(self, path: str, *, version: int | None = None) -> None:
        self.commit((Change(path, None, version),))

    def commit(self, changes: Sequence[Change]) -> None:
        if self._rivals:
            self._rivals.popleft()(MemoryRegistry(self.tree))
        nodes = dict(self.tree.nodes)
        paths = [path for change in changes for path in _apply(nodes, change, self._session)]
        self.tree.nodes = nodes
        self.tree.changed(paths)

    def watch(self, path: str, changed: Callable[[str], None]) -> None:
        self.tree.watches.append((self._session, path, changed))

    def close(self) -> None:
        """End the session."""
        self.tree.watches = [watch for watch in self.tree.watches if watch[0] != self._session]
        gone = [path for path, node in self.tree.nodes.items() if node.owner == self._session]
        self.commit([Change(path, None) for path in gone])


def _apply(nodes: dict[str, _Node], change: Change, session: int) -> list[str]:
    path, value, version, ephemeral = change
    node = nodes.get(path)
    _check(path, node, version)
    if value is None:
        if node is None:
            raise NoEntry(path)
        gone = [name for name in nodes if name == path or name.startswith(path + "/")]
        for name in gone:
            del nodes[name]
        return gone
    made = _make_parents(nodes, path)
    if node is None:
        nodes[path] = _Node(value, 0, session if ephemeral else None)
    else:
        nodes[path] = _Node(value, node.version + 1, node.owner)
    return [*made, path]


def _check(path: str, node: _Node | None, version: int | None) -> None:
    if version is None:
        return
    if version == NEW:
        if node is not None:
            raise EntryExists(path)
        return
    if node is None:
        raise NoEntry(path)
    if node.version != version:
        raise VersionConflict(f"{path} has version {node.version}, not {version}")


def _make_parents(nodes: dict[str, _Node], path: str) -> list[str]:
    made = []
    parent = path.rpartition("/")[0]
    while parent and parent not in nodes:
        nodes[parent] = _Node(b"", 0, None)
        made.append(parent)
        parent = parent.rpartition("/")[0]
    return made

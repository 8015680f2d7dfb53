"""The servers of a simulated shared registry: entries, sessions that expire, and watches.

They behave as ZooKeeper does, as far as the port shows: transactions are numbered, a session outlives its connections, and a watch
is called once. The server of a session can lag behind the others. It then returns former entries, but never older ones than the
session has read, was notified of or has written. A session is identified by its callbacks, not by a broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ottla.ports import Change, Condition, Entry, NoEntry, RegistryRefused
from ottla.registry.tree import check_version
from ottla.sim.world import World

DATA, CHILDREN = "data", "children"
"""The kinds of watches: for an entry's value, and for the names of its children."""
Watched = tuple[str, str]
"""(kind, path)"""

MOST_BYTES = 1 << 20
"""The size limit, in bytes, of one commit or one value. ZooKeeper closes the connection of a client that sends more."""
DIGITS = 10


@dataclass(slots=True)
class SharedNode:
    """An entry of the simulated ZooKeeper.

    `owner` is the session of an ephemeral entry, otherwise None. `made` is the number of sequential children ever created below the
    entry.
    """

    value: bytes
    version: int
    created: int
    owner: int | None
    children: set[str] = field(default_factory=set)
    made: int = 0

    def entry(self) -> Entry:
        return Entry(self.value, self.version, self.created)


class PastNode(NamedTuple):
    """The state of a path until the transaction with number `until` changed it. `entry` is None if the path did not exist."""

    until: int
    entry: Entry | None
    children: list[str]


class Missed(NamedTuple):
    """A transaction that the lagging server of a session has not received yet."""

    number: int
    touched: Sequence[Watched]


@dataclass(slots=True)
class ServedSession:
    """A session as the servers see it. `told(watched)` is called for a watch, `over()` when the session ends.

    A request is served only if it arrives over `connection`, the session's last one. `has_lapsed` is whether the session has
    expired. While its server lags, `seen` is the last transaction that has reached the server, and `missed` are the later
    transactions. Otherwise `seen` is None.
    """

    number: int
    expires_ms: int
    told: Callable[[Watched], None] = lambda watched: None
    over: Callable[[], None] = lambda: None
    watches: set[Watched] = field(default_factory=set)
    connection: object = None
    has_lapsed: bool = False
    seen: int | None = None
    missed: deque[Missed] = field(default_factory=deque)


class SimEnsemble:
    """The servers behind a shared registry. `timeout_ms` is the session timeout.

    While `is_down` is set, the servers have no quorum: no request is answered, and no session expires. Tests use `put`, `get` and
    `children` like a client whose connection never fails.
    """

    def __init__(self, world: World, *, timeout_ms: int = 6_000) -> None:
        self.world = world
        self.timeout_ms = timeout_ms
        self.is_down = False
        self.transactions = 0
        self.sessions: dict[int, ServedSession] = {}
        self.before_commit: list[Callable[[], None]] = []
        """Callbacks that simulate the quicker commit of a rival: each is called once, just before a commit of any session."""
        self.after_commit: list[Callable[[Iterable[str]], None]] = []
        """Callbacks that are called after each commit with the changed paths."""
        self._begun = 0
        self._nodes = {"/": SharedNode(b"", 0, 0, None)}
        self._past: dict[str, list[PastNode]] = {}
        """The former states by path. They are kept while the server of any session lags."""

    # For tests and checks of the entries

    def get(self, path: str) -> Entry | None:
        node = self._nodes.get(path)
        return None if node is None else node.entry()

    def children(self, path: str) -> list[str]:
        node = self._nodes.get(path)
        return [] if node is None else sorted(node.children)

    def put(self, *changes: Change | Condition) -> None:
        """Commit changes without a session."""
        self._commit(changes, None)

    # Sessions

    def begin(self) -> ServedSession:
        """Begin a session."""
        self._begun += 1
        session = self.sessions[self._begun] = ServedSession(self._begun, 0)
        self.extend_session(session)
        return session

    def extend_session(self, session: ServedSession) -> None:
        """Extend the lifetime of a session that has sent a message."""
        session.expires_ms = self.world.now_ms + self.timeout_ms
        self.world.after(self.timeout_ms, partial(self._expire_if_due, session))

    def restore_quorum(self) -> None:
        """Restore the quorum. Every session's timeout starts anew, as after ZooKeeper's election of a leader."""
        self.is_down = False
        for session in self.sessions.values():
            self.extend_session(session)

    def _expire_if_due(self, session: ServedSession) -> None:
        if not self.is_down and session.number in self.sessions and self.world.now_ms >= session.expires_ms:
            session.has_lapsed = True
            self.end(session)

    def end(self, session: ServedSession) -> None:
        """End a session on the servers. Remove its ephemeral entries, and call the watches on these entries."""
        if self.sessions.pop(session.number, None) is None:
            return
        own = [path for path, node in self._nodes.items() if node.owner == session.number]
        if own:
            self._commit([Change(path, None) for path in own], None)
        session.over()
        session.missed.clear()
        session.seen = None
        self._forget_past()

    # Servers that lag

    def lag(self, session: ServedSession, ms: int) -> None:
        """Delay transactions by `ms` on their way to the server of a session. A commit of the same session ends the delay."""
        if session.seen is None and session.number in self.sessions:
            session.seen = self.transactions
            self.world.after(ms, partial(self.catch_up, session))

    def catch_up(self, session: ServedSession) -> None:
        """Deliver the missed transactions to the server of a session, and call the session's watches in order."""
        if session.seen is None:
            return
        missed, session.missed, session.seen = session.missed, deque(), None
        for each in missed:
            for watched in each.touched:
                self._notify(session, watched)
        self._forget_past()

    def _forget_past(self) -> None:
        if all(each.seen is None for each in self.sessions.values()):
            self._past.clear()

    def _was(self, session: ServedSession, path: str) -> PastNode:
        """Return the state of a path on the session's server, which can lag behind the other servers."""
        if session.seen is not None:
            for past in self._past.get(path, ()):
                if past.until > session.seen:
                    return past
        return self._until(self.transactions + 1, path)

    # Requests of a session

    def read(self, session: ServedSession, path: str, *, watch: bool) -> Entry | None:
        if watch:
            session.watches.add((DATA, path))
        return self._was(session, path).entry

    def list(self, session: ServedSession, path: str, *, watch: bool) -> list[str] | None:
        if watch:
            session.watches.add((CHILDREN, path))
        was = self._was(session, path)
        return None if was.entry is None else was.children

    def commit(self, session: ServedSession, changes: Sequence[Change | Condition]) -> None:
        """Make all changes or none. Raises the exceptions of `SharedRegistry.commit`."""
        if self.before_commit:
            self.before_commit.pop(0)()
        try:
            self._commit(changes, session.number)
        finally:
            self.catch_up(session)

    def _commit(self, changes: Sequence[Change | Condition], owner: int | None) -> None:
        size = sum(len(each.path) + len(each.value or b"") for each in changes if isinstance(each, Change))
        if size > MOST_BYTES:
            raise RegistryRefused(changes[0].path, f"{size} bytes in one commit are too many: the registry takes {MOST_BYTES}")
        draft = _Draft(self._nodes, self.transactions + 1, owner)
        for each in changes:
            draft.add(each)
        self.transactions += 1
        lagging = [session for session in self.sessions.values() if session.seen is not None]
        for path, node in draft.nodes.items():
            if lagging:
                self._past.setdefault(path, []).append(self._until(self.transactions, path))
            if node is None:
                self._nodes.pop(path, None)  # the same commit may have created it
            else:
                self._nodes[path] = node
        for session in lagging:
            session.missed.append(Missed(self.transactions, tuple(draft.touched)))
        self._notify_all(draft.touched)
        for told in self.after_commit:
            told(draft.nodes)

    def _notify_all(self, touched: Iterable[Watched]) -> None:
        for watched in touched:
            for session in list(self.sessions.values()):
                if session.seen is None:
                    self._notify(session, watched)

    def _until(self, until: int, path: str) -> PastNode:
        """Return the present state of a path as a `PastNode` that is valid until the transaction `until`."""
        node = self._nodes.get(path)
        return PastNode(until, *((None, []) if node is None else (node.entry(), sorted(node.children))))

    def _notify(self, session: ServedSession, watched: Watched) -> None:
        if watched in session.watches:
            session.watches.discard(watched)
            session.told(watched)


class _Draft:
    """A commit that is being checked and is not applied yet. `nodes` maps paths to changed entries, or to None for a removed
    entry.
    """

    def __init__(self, nodes: dict[str, SharedNode], number: int, owner: int | None) -> None:
        self._before = nodes
        self._number = number
        self._owner = owner
        self.nodes: dict[str, SharedNode | None] = {}
        self.touched: dict[Watched, None] = {}

    def add(self, each: Change | Condition) -> None:
        """Add one change or condition. Raises the exceptions of `SharedRegistry.commit`."""
        node = self._get(each.path)
        if isinstance(each, Condition):
            check_version(each.path, None if node is None else node.version, each.version)
        elif each.sequential:
            parent = self._parent(each.path)
            self._make(f"{each.path}{parent.made:0{DIGITS}}", each)
            parent.made += 1
        else:
            check_version(each.path, None if node is None else node.version, each.version)
            if each.value is None:
                self._remove(each.path, node)
            elif node is None:
                self._make(each.path, each)
            else:
                changed = self._own(each.path, node)
                changed.value, changed.version = each.value, node.version + 1
                self.touched[DATA, each.path] = None

    def _get(self, path: str) -> SharedNode | None:
        return self.nodes[path] if path in self.nodes else self._before.get(path)

    def _own(self, path: str, node: SharedNode) -> SharedNode:
        """Return the draft's own copy of a node, which can be changed."""
        if self.nodes.get(path) is not node:
            node = SharedNode(node.value, node.version, node.created, node.owner, set(node.children), node.made)
            self.nodes[path] = node
        return node

    def _parent(self, path: str) -> SharedNode:
        """Return the draft's own copy of the parent of a path. Create the parent if it is missing."""
        above = path.rpartition("/")[0] or "/"
        node = self._get(above)
        if node is None:
            self._make(above, Change(above, b""))
            node = self._get(above)
        assert node is not None, "it was made just now"
        return self._own(above, node)

    def _make(self, path: str, change: Change) -> None:
        parent = self._parent(path)
        if parent.owner is not None:
            raise RegistryRefused(path, "an ephemeral entry cannot have children")
        parent.children.add(path.rpartition("/")[2])
        self.nodes[path] = SharedNode(change.value or b"", 0, self._number, self._owner if change.ephemeral else None)
        self._touch(path)

    def _remove(self, path: str, node: SharedNode | None) -> None:
        if node is None:
            raise NoEntry(path)
        for name in sorted(node.children):
            below = f"{path}/{name}"
            self._remove(below, self._get(below))
        self.nodes[path] = None
        self._parent(path).children.discard(path.rpartition("/")[2])
        self._touch(path)

    def _touch(self, path: str) -> None:
        """Record that an entry was created or removed: its data, its children, and the children of its parent have changed."""
        for watched in ((DATA, path), (CHILDREN, path), (CHILDREN, path.rpartition("/")[0] or "/")):
            self.touched[watched] = None

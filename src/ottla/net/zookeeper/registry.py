"""ZooKeeper as the shared registry: pipelined reads, and commits as transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from kazoo.exceptions import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
)
from kazoo.protocol.serialization import Exists, GetChildren, GetData

from ottla.net.zookeeper.batch import PATHS_AT_ONCE
from ottla.net.zookeeper.operations import Operated, There, above, exception_of, operations, parents
from ottla.net.zookeeper.session import Changed, ZooKeeperSession
from ottla.ports import (
    Change,
    CommitSteps,
    Condition,
    Entry,
    RegistryAway,
    RegistryRefused,
    SessionEvent,
    Steps,
)

Entries = list[Entry | None]
Names = list[list[str] | None]
Paths = list[str]
Below = dict[str, list[str]]
Levels = list[list[tuple[str, str]]]
Flags = list[bool]
Operations = list[Operated]
Reads = list[Any]
"""Types of lists. They are defined here because `list` is a method within the class."""

MOST_BYTES = 1_000_000
"""The size limit of one transaction, in bytes. A server cuts connections at jute.maxbuffer, 1 048 575 bytes."""

MOST_RACES = 20


class ZooKeeperRegistry:
    """Implements `ottla.ports.SharedRegistry` on a session, which `close` ends."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    @property
    def timeout_ms(self) -> int:
        """Return the session timeout to which the server agreed, in ms."""
        return self._session.timeout_ms

    def session_end_ms(self) -> int:
        return self._session.lives_until_ms

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        self._session.told.append(told)

    def close(self) -> None:
        """Close the session. This blocks until the server answers."""
        self._session.close()

    def read(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[Entries]:
        if changed is None and len(paths) > 1 and self._session.reads_many:
            return (yield from self._at_once(GetData, paths))
        return (yield from self._one_by_one(GetData, _entry, paths, changed))

    def list(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[Names]:
        if changed is None and len(paths) > 1 and self._session.reads_many:
            listed = yield from self._at_once(GetChildren, paths)
            return [names and sorted(names) for names in listed]
        return (yield from self._one_by_one(GetChildren, sorted, paths, changed))

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        if not changes:
            return
        for _ in range(MOST_RACES):
            there = yield from self._read_present(changes)
            wanted = [*operations(changes, there)]
            if sum(operation.size for operation in wanted) > MOST_BYTES:
                wanted = yield from self._delete_below(wanted)
            failed = yield from self._commit_once(wanted)
            if failed is None:
                return
            operation, error = failed
            if isinstance(error, NoNodeError) and operation.kind == "create":
                yield from self._make_parents(changes)
            elif not _is_race(operation, error):
                raise exception_of(operation.of.path, error)
        raise RegistryRefused(changes[0].path, "it is changed concurrently: try again")

    def _at_once(self, kind: Any, paths: Sequence[str]) -> Steps[Reads]:
        """Return the results for these paths, without watches. Each request reads many paths."""
        pieces = [paths[first : first + PATHS_AT_ONCE] for first in range(0, len(paths), PATHS_AT_ONCE)]
        answers = yield from self._session.request([partial(self._session.read_many, kind, some) for some in pieces])
        found: Reads = []
        for some, answer in zip(pieces, answers, strict=True):
            if isinstance(answer.error, UnimplementedError):  # after a reconnect, the request went to an older server
                raise RegistryAway(some[0], "the session moved to a ZooKeeper server with older state")
            if answer.error is not None:
                raise exception_of(some[0], answer.error)
            found += [_there(path, one) for path, one in zip(some, answer.value, strict=True)]
        return found

    def _one_by_one(self, kind: Any, read: Callable[[Any], Any], paths: Sequence[str], changed: Changed | None) -> Steps[Reads]:
        """Return the results of `read` for these paths, with watches if `changed` is given. Each request reads one path."""
        answers = yield from self._session.request([partial(self._session.read, kind, path, changed) for path in paths])
        values = [_there(path, answer.error or answer.value) for path, answer in zip(paths, answers, strict=True)]
        found: Reads = [None if value is None else read(value) for value in values]
        if changed is not None:
            missing = [index for index, value in enumerate(values) if value is None]
            is_there = yield from self._are_there([paths[index] for index in missing], changed)
            for index, there in zip(missing, is_there, strict=True):
                if there:  # the entry was created in between
                    (found[index],) = yield from self._one_by_one(kind, read, [paths[index]], changed)
        return found

    def _are_there(self, paths: Sequence[str], changed: Changed | None = None) -> Steps[Flags]:
        answers = yield from self._session.request([partial(self._session.read, Exists, path, changed) for path in paths])
        for path, answer in zip(paths, answers, strict=True):
            if answer.error is not None:
                raise exception_of(path, answer.error)
        return [answer.value is not None for answer in answers]

    def _read_present(self, changes: Sequence[Change | Condition]) -> Steps[There]:
        unsure = [
            one.path
            for one in changes
            if isinstance(one, Change) and one.value is not None and one.version is None and not one.sequential
        ]
        are_there = yield from self._are_there(unsure)
        below = yield from self._below([one.path for one in changes if isinstance(one, Change) and one.value is None])
        return There(frozenset(path for path, there in zip(unsure, are_there, strict=True) if there), below)

    def _below(self, paths: Paths) -> Steps[Below]:
        """Return all entries below each of these paths, the deepest first. Entries of one depth are read together."""
        below: Below = {path: [] for path in paths}
        levels: Levels = [[(path, path) for path in below]]
        while levels[-1]:
            children = yield from self.list([path for _, path in levels[-1]])
            level = zip(levels[-1], children, strict=True)
            levels.append([(top, f"{parent}/{name}") for (top, parent), names in level for name in names or ()])
        for top, found in chain(*reversed(levels[1:])):
            below[top].append(found)
        return below

    def _delete_below(self, wanted: Operations) -> Steps[Operations]:
        """Delete the entries below removed ones in separate requests, because there can be many. Return the other operations."""
        below = [one for one in wanted if one.kind == "delete" and one.path != one.of.path]
        rest = [one for one in wanted if one.kind != "delete" or one.path == one.of.path]
        if sum(operation.size for operation in rest) > MOST_BYTES:
            raise RegistryRefused(rest[0].path, "the change is larger than ZooKeeper's 1 MB: split it")
        answers = yield from self._session.request([partial(self._session.transact, [one]) for one in below])
        for one, answer in zip(below, answers, strict=True):
            error = answer.error or answer.value[0]
            if isinstance(error, Exception) and not isinstance(error, NoNodeError | NotEmptyError):
                raise exception_of(one.path, error)
        return rest

    def _commit_once(self, wanted: Sequence[Operated]) -> Steps[tuple[Operated, Exception] | None]:
        """Commit the operations as one transaction. Return the refused operation with its error, or None if all succeeded."""
        (answer,) = yield from self._session.request([partial(self._session.transact, wanted)])
        if answer.error is not None:
            return wanted[0], answer.error
        for operation, result in zip(wanted, answer.value, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                return operation, result
        return None

    def _make_parents(self, changes: Sequence[Change | Condition]) -> Steps[None]:
        """Create the missing parents of the entries that the changes create, including the chroot."""
        root = self._session.root
        paths = [*above(root + "/"), *(root + path for path in parents(changes))]
        answers = yield from self._session.request([partial(self._session.make, path) for path in paths])
        for path, answer in zip(paths, answers, strict=True):
            error = answer.error or answer.value[0]
            if isinstance(error, Exception) and not isinstance(error, NodeExistsError):
                raise exception_of(path, error)


def _there(path: str, one: Any) -> Any:
    if isinstance(one, NoNodeError):
        return None
    if isinstance(one, Exception):
        raise exception_of(path, one)
    return one


def _entry(found: Any) -> Entry:
    value, stat = found
    return Entry(value or b"", stat.version, stat.czxid)  # an entry of Kafka can be without a value


def _is_race(operation: Operated, error: Exception) -> bool:
    """Return whether the entry was created or removed after it was read, so that the commit must be retried."""
    if operation.path != operation.of.path:
        return isinstance(error, NoNodeError)
    is_free = isinstance(operation.of, Change) and operation.of.value is not None and operation.of.version is None
    return isinstance(error, NotEmptyError) or (is_free and isinstance(error, NoNodeError | NodeExistsError))

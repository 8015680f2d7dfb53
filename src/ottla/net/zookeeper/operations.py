"""The registry port in ZooKeeper's terms: a commit as the operations of one transaction, and ZooKeeper's errors as the port's
exceptions.

The caller supplies the present entries; this module sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kazoo import exceptions as zookeeper

from ottla.ports import NEW, Change, Condition, DuplicateEntry, NoEntry, RegistryAway, RegistryRefused, VersionConflict

ANY = -1

AWAY = (
    zookeeper.ConnectionLoss,
    zookeeper.ConnectionDropped,
    zookeeper.ConnectionClosedError,
    zookeeper.OperationTimeoutError,
    zookeeper.RequestTimeoutError,
    zookeeper.SessionExpiredError,
    zookeeper.SessionMovedError,
    zookeeper.AuthFailedError,
)
"""The errors after which the outcome of a request is unknown."""

MEANINGS: dict[type[Exception], type[Exception]] = {
    zookeeper.NodeExistsError: DuplicateEntry,
    zookeeper.NoNodeError: NoEntry,
    zookeeper.BadVersionError: VersionConflict,
}
REASONS: dict[type[Exception], str] = {
    zookeeper.NoAuthError: "ZooKeeper's ACL does not permit this broker: give it the other brokers' login",
    zookeeper.InvalidACLError: "an ACL needs an authenticated broker: give it a login, or set zookeeper.set.acl=false",
    zookeeper.NoChildrenForEphemeralsError: "its parent is an ephemeral entry, which cannot have children",
    zookeeper.QuotaExceededError: "ZooKeeper's quota for it is exceeded: raise it",
}


def exception_of(path: str, error: Exception) -> Exception:
    """Return the registry's exception for an error of kazoo."""
    if isinstance(error, AWAY):
        return RegistryAway(path, "ZooKeeper is unreachable, or the session has expired")
    kind = type(error)
    if kind in MEANINGS:
        return MEANINGS[kind](path)
    return RegistryRefused(path, REASONS.get(kind) or f"ZooKeeper refused it ({kind.__name__})")


class Operated(NamedTuple):
    """One operation of a ZooKeeper transaction. `of` is the change or condition from which the operation was made."""

    kind: str
    """One of create, set, delete and check."""

    path: str
    of: Change | Condition
    value: bytes = b""
    version: int = ANY

    @property
    def size(self) -> int:
        """Return the operation's approximate size on the wire, in bytes."""
        return len(self.path) + len(self.value) + 64


class There(NamedTuple):
    """The present entries in ZooKeeper, from which the operations of a commit are derived."""

    paths: frozenset[str]
    """The paths of existing entries, among the entries that a change either creates or sets."""

    below: Mapping[str, Sequence[str]]
    """The paths below each entry that is to be removed, the deepest first."""


def operations(changes: Sequence[Change | Condition], there: There) -> Iterator[Operated]:
    """Yield the operations in the order of the changes. Entries below a removed entry are deleted before it."""
    for one in changes:
        if isinstance(one, Condition):
            yield from _checks(one)
        elif one.value is None:
            yield from (Operated("delete", path, one) for path in there.below.get(one.path, ()))
            yield Operated("delete", one.path, one, version=ANY if one.version is None else one.version)
        elif one.version == NEW or one.sequential or (one.version is None and one.path not in there.paths):
            yield Operated("create", one.path, one, one.value)
        else:
            yield Operated("set", one.path, one, one.value, ANY if one.version is None else one.version)


def _checks(condition: Condition) -> Iterator[Operated]:
    """Return the operations that check a condition.

    ZooKeeper cannot check that an entry does not exist, so the operations create the entry, and delete it at once.
    """
    if condition.version == NEW:
        yield Operated("create", condition.path, condition)
        yield Operated("delete", condition.path, condition)
    else:
        yield Operated("check", condition.path, condition, version=condition.version)


def parents(changes: Sequence[Change | Condition]) -> list[str]:
    """Return all parents of the entries that the changes can create. Each parent comes after its own parent."""
    made = (one for one in changes if ((one.version == NEW) if isinstance(one, Condition) else (one.value is not None)))
    return sorted({path for one in made for path in above(one.path)}, key=lambda path: path.count("/"))


def above(path: str) -> list[str]:
    """Return all parents of this path. Each parent comes after its own parent."""
    names = path.split("/")[1:-1]
    return ["/".join(["", *names[: depth + 1]]) for depth in range(len(names))]

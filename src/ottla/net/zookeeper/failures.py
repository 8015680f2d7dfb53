"""The exceptions of a broker's registry for ZooKeeper's errors."""

from __future__ import annotations

from kazoo import exceptions as zookeeper

from ottla.ports import DuplicateEntry, NoEntry, RegistryAway, RegistryRefused, VersionConflict

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


def meaning(path: str, error: Exception) -> Exception:
    """Return the registry's exception for an error of kazoo."""
    if isinstance(error, AWAY):
        return RegistryAway(path, "ZooKeeper is unreachable, or the session has expired")
    kind = type(error)
    if kind in MEANINGS:
        return MEANINGS[kind](path)
    return RegistryRefused(path, REASONS.get(kind) or f"ZooKeeper refused it ({kind.__name__})")

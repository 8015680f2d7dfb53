"""The meaning of ZooKeeper's errors for a broker."""

from __future__ import annotations

from kazoo import exceptions as zookeeper

from ottla.ports import EntryExists, NoEntry, RegistryAway, StorageFailed, VersionConflict

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
    zookeeper.NodeExistsError: EntryExists,
    zookeeper.NoNodeError: NoEntry,
    zookeeper.BadVersionError: VersionConflict,
}
REASONS: dict[type[Exception], str] = {
    zookeeper.NoAuthError: "ZooKeeper's rights on it do not let this broker do so: let it log in as the others do",
    zookeeper.InvalidACLError: "only a broker that logs in can set rights on it: give it a login, or set zookeeper.set.acl=false",
    zookeeper.NoChildrenForEphemeralsError: "it is below an entry of a session, which can have none",
    zookeeper.QuotaExceededError: "ZooKeeper has a quota there that is used up: raise it",
}


def meaning(path: str, error: Exception) -> Exception:
    """Return the registry's exception for an error of kazoo."""
    if isinstance(error, AWAY):
        return RegistryAway(path, "ZooKeeper is not reached, or the session has ended")
    kind = type(error)
    if kind in MEANINGS:
        return MEANINGS[kind](path)
    return StorageFailed(path, REASONS.get(kind) or f"ZooKeeper refuses it ({kind.__name__})")

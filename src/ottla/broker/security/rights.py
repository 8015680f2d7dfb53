"""Authorization: the permissions that the broker checks (`Rights`), and the authorizers that decide about them.

Depends on operations and resources, and neither on ACLs (`ottla.broker.security.acls`) nor on requests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from ottla.broker.serving.request import Peer
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.cluster.names import printable
from ottla.coord.runtime.machine import Shown
from ottla.ports import Now

log = logging.getLogger("ottla.authorizer")

NOT_ASKED: Final = -(1 << 31)
"""The value of authorized operations in a response whose request did not ask for them."""
LINES_A_SECOND: Final = 10
NAMES_IN_A_LINE: Final = 5
LONGEST_NAME: Final = 100
DENIED: Final = "%s from %s may not %s %s %s: %s was refused%s"

OPERATIONS: Final = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""All operations on the resource types whose authorized operations are returned (KIP-430)."""


ALL_OPERATIONS: Final = {resource: sum(1 << each for each in operations) for resource, operations in OPERATIONS.items()}
"""All operations as the bit field of KIP-430."""


class Authorizer(Protocol):
    """The interface of a custom authorizer, named by `authorizer.class.name=module:Class` and created without arguments."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool: ...


class Answering(Protocol):
    """The interface of an authorizer that returns decisions for all resource names of one operation together."""

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        """Return a mapping from each resource name to whether the client may perform the operation on it."""
        ...

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        """Return whether an operation is allowed for any resource of this type."""
        ...

    @property
    def changes(self) -> int:
        """Return a number that increases whenever authorization decisions may have changed, so that caches can be dropped."""
        ...


class Always(dict[str, bool]):
    """A mapping with the same authorization decision for every resource name."""

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer

    def __missing__(self, name: str) -> bool:
        return self._answer


YES: Final = Always(answer=True)
NO: Final = Always(answer=False)


class AllowAll:
    """The authorizer if none is configured: everything is allowed."""

    changes = 0

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        return YES

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        return True


class _LazyDecisions(dict[str, bool]):
    """The decisions of a custom authorizer by resource name. Each decision is requested when it is first read."""

    def __init__(self, authorizer: Authorizer, peer: Peer, operation: Operation, resource: Resource) -> None:
        self._asks = authorizer, peer, operation, resource

    def __missing__(self, name: str) -> bool:
        authorizer, peer, operation, resource = self._asks
        answer = self[name] = bool(authorizer.allows(peer, operation, resource, name))
        return answer


class UncachedAuthorizer:
    """A custom authorizer. Its decisions are cached only within one request, because they can change at any time."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._asked = 0

    @property
    def changes(self) -> int:
        self._asked += 1
        return self._asked

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        return _LazyDecisions(self._authorizer, peer, operation, resource)

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        """Return whether the custom authorizer allows the resource name "*".

        Authorizers that allow only certain names refuse it.
        """
        return bool(self._authorizer.allows(peer, operation, resource, "*"))


ITSELF: Final = Peer(-1, "itself", 0)
"""The peer of a broker's requests to itself."""


class TrustingItself:
    """An authorizer that allows everything to the broker itself. It passes other peers on to another authorizer."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    @property
    def changes(self) -> int:
        return self._answering.changes

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        return YES if peer is ITSELF else self._answering.answers(peer, operation, resource)

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        return peer is ITSELF or self._answering.allows_some(peer, operation, resource)


class Rights:
    """The permissions of clients. `is_open`: there is no authorizer, and everything is allowed.

    `has_rules`: ACLs decide, and clients can create, describe and delete ACLs.
    """

    def __init__(self, answering: Answering, *, has_rules: bool = False) -> None:
        self.has_rules = has_rules
        self.is_open = isinstance(answering, AllowAll)
        self.answers = answering.answers
        self.allows_some = answering.allows_some
        self._answering = answering
        self._second = 0
        self._lines = 0
        self._untold = 0

    @property
    def changes(self) -> int:
        """Return a number that increases whenever an authorization decision may have changed."""
        return self._answering.changes

    def is_unlimited(self, peer: Peer) -> bool:
        """Return whether a client may do everything, so that no names need to be checked."""
        return self.answers(peer, Operation.DESCRIBE, Resource.TOPIC) is YES

    def may(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return self.answers(peer, operation, resource)[name]

    def shown_to(self, peer: Peer) -> Shown:
        """Return a function that filters topic names by the client's current permission to describe them."""
        return partial(self._describable, peer)

    def _describable(self, peer: Peer, names: frozenset[str]) -> frozenset[str]:
        seen = self.answers(peer, Operation.DESCRIBE, Resource.TOPIC)
        return names if seen is YES else frozenset(name for name in names if seen[name])

    def check(self, peer: Peer, operation: Operation, resource: Resource, name: str, api: str, now: Now) -> bool:
        """Check whether a client may perform an operation on one resource, and return the result. Log a refusal with the `api`."""
        if self.may(peer, operation, resource, name):
            return True
        self.log_refusal(peer, operation, resource, (name,), api, now)
        return False

    def find_denied(
        self, peer: Peer, operation: Operation, resource: Resource, names: Iterable[str], api: str, now: Now
    ) -> list[str]:
        """Return the names on which a client may not perform a request's operation, and log the refusal."""
        may = self.answers(peer, operation, resource)
        denied = [name for name in names if not may[name]]
        if denied:
            self.log_refusal(peer, operation, resource, denied, api, now)
        return denied

    def operations(self, peer: Peer, resource: Resource, name: str) -> int:
        """Return a client's authorized operations on a resource, as the bit field of KIP-430."""
        if self.is_unlimited(peer):
            return ALL_OPERATIONS[resource]
        return sum(1 << operation for operation in OPERATIONS[resource] if self.answers(peer, operation, resource)[name])

    def log_refusal(self, peer: Peer, operation: Operation, resource: Resource, names: Sequence[str], api: str, now: Now) -> None:
        """Log a refused operation. Lines per second are limited, and the next line has the number of omitted refusals."""
        second = now.mono_ms // 1000
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= LINES_A_SECOND:
            self._untold += 1
            return
        self._lines += 1
        shown = ", ".join(repr(name[:LONGEST_NAME]) for name in names[:NAMES_IN_A_LINE])
        more = f" and {len(names) - NAMES_IN_A_LINE} more" if len(names) > NAMES_IN_A_LINE else ""
        before = f" ({self._untold} more refusals were not written here)" if self._untold else ""
        self._untold = 0
        what = operation.name.lower(), resource.name.lower().replace("_", " "), shown + more
        log.info(DENIED, printable(peer.principal), peer.host, *what, api, before)

    def cluster_operations(self, peer: Peer) -> int:
        """Return a client's authorized operations on the cluster; 0 if the client may not describe the cluster."""
        if not self.may(peer, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
            return 0
        return self.operations(peer, Resource.CLUSTER, CLUSTER_NAME)

"""Who may do what: the question that the broker asks, and who answers it.

Knows operations and resources; knows no rule (`ottla.broker.security.acls` does) and no request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from ottla.broker.serving.request import Peer
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.cluster.names import printable
from ottla.coord.runtime.machine import Shown
from ottla.ports import Now

log = logging.getLogger("ottla.authorizer")

NOT_ASKED: Final = -(1 << 31)
"""The operations of a resource when nobody asked for them."""
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
"""Every operation on a resource that is told of it (KIP-430)."""


ALL_OPERATIONS: Final = {resource: sum(1 << each for each in operations) for resource, operations in OPERATIONS.items()}
"""The same as the bit field of KIP-430."""


class Authorizer(Protocol):
    """Who may do what. One's own is named by `authorizer.class.name=module:Class`, and is made without arguments."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool: ...


class Answering(Protocol):
    """An authorizer that answers many questions of one kind at once."""

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        """Whether an operation is allowed, by the name of the resource."""
        ...

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        """Whether there is any resource of that type of which it is allowed."""
        ...

    @property
    def changes(self) -> int:
        """Grows whenever an answer may have become another."""
        ...


class Always(dict[str, bool]):
    """The same answer for each name."""

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer

    def __missing__(self, name: str) -> bool:
        return self._answer


YES: Final = Always(answer=True)
NO: Final = Always(answer=False)


class Everybody:
    """The authorizer where there is none: everybody may do everything."""

    changes = 0

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        return YES

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        return True


class _Asked(dict[str, bool]):
    """Answers of an authorizer that is asked each time."""

    def __init__(self, authorizer: Authorizer, peer: Peer, operation: Operation, resource: Resource) -> None:
        self._asks = authorizer, peer, operation, resource

    def __missing__(self, name: str) -> bool:
        authorizer, peer, operation, resource = self._asks
        answer = self[name] = bool(authorizer.allows(peer, operation, resource, name))
        return answer


class AskingEachTime:
    """Somebody's own authorizer: nothing that it says is kept beyond the request, for nobody knows when it changes its mind."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._asked = 0

    @property
    def changes(self) -> int:
        self._asked += 1
        return self._asked

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        return _Asked(self._authorizer, peer, operation, resource)

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        """It is asked about all of them: an authorizer that knows some alone says no."""
        return bool(self._authorizer.allows(peer, operation, resource, "*"))


ITSELF: Final = Peer(-1, "itself", 0)
"""As whom a broker of a cluster asks itself."""


class TrustingItself:
    """Another's answers, except that the broker itself may do everything."""

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
    """What clients may do. `is_open`: everybody may do everything, and nobody needs to be asked.

    `has_rules`: rules of access decide, and can be made, told and deleted.
    """

    def __init__(self, answering: Answering, *, has_rules: bool = False) -> None:
        self.has_rules = has_rules
        self.is_open = isinstance(answering, Everybody)
        self.answers = answering.answers
        self.allows_some = answering.allows_some
        self._answering = answering
        self._second = 0
        self._lines = 0
        self._untold = 0

    @property
    def changes(self) -> int:
        """Grows whenever an answer may have become another."""
        return self._answering.changes

    def is_unlimited(self, peer: Peer) -> bool:
        """Whether a client may do everything."""
        return self.answers(peer, Operation.DESCRIBE, Resource.TOPIC) is YES

    def may(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return self.answers(peer, operation, resource)[name]

    def shown_to(self, peer: Peer) -> Shown:
        """What leaves of topics' names those of which a client may hear, whenever it is asked."""
        return partial(self._describable, peer)

    def _describable(self, peer: Peer, names: frozenset[str]) -> frozenset[str]:
        seen = self.answers(peer, Operation.DESCRIBE, Resource.TOPIC)
        return names if seen is YES else frozenset(name for name in names if seen[name])

    def asked(self, peer: Peer, operation: Operation, resource: Resource, name: str, api: str, now: Now) -> bool:
        """Whether a client may do what it asks for; the log notes that it may not."""
        if self.may(peer, operation, resource, name):
            return True
        self.refused(peer, operation, resource, (name,), api, now)
        return False

    def operations(self, peer: Peer, resource: Resource, name: str) -> int:
        """The operations on a resource that a client may do, as the bit field of KIP-430."""
        if self.is_unlimited(peer):
            return ALL_OPERATIONS[resource]
        return sum(1 << operation for operation in OPERATIONS[resource] if self.answers(peer, operation, resource)[name])

    def refused(self, peer: Peer, operation: Operation, resource: Resource, names: Sequence[str], api: str, now: Now) -> None:
        """Note in the log that somebody asked for what he may not do: so many lines a second, and how many more there were."""
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
        """The same for the cluster: none at all for whom may not describe it."""
        if not self.may(peer, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
            return 0
        return self.operations(peer, Resource.CLUSTER, CLUSTER_NAME)

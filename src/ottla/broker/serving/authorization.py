"""What a request needs to be allowed: the operation and the resource, declared beside each handler and checked in one place.

Knows resources and operations by Kafka's numbers (KIP-11, KIP-430); knows no ACL. Who decides is an `Authorizer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from ottla.broker.serving.refusals import joined, refusal
from ottla.broker.serving.request import Close, Peer, Request
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    ERRORS,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from ottla.wire.schema import Message


class Operation(IntEnum):
    """What somebody wants to do, with Kafka's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """What it is done to, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


BY_CONFIG_TYPE: Final = {2: Resource.TOPIC, 4: Resource.CLUSTER, 32: Resource.GROUP}
"""What the resource types of DescribeConfigs and AlterConfigs mean."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster resource."""

DENIED: Final = {
    Resource.TOPIC: TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
NOT_ASKED: Final = -(1 << 31)
"""The operations of a resource when nobody asked for them."""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


OPERATIONS: Final = {
    Resource.TOPIC: _bits(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: _bits(
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
    ),
    Resource.CLUSTER: _bits(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""Every operation on a resource, as the bit field of KIP-430. Everybody may do all of them as long as there are no ACLs."""


@dataclass(frozen=True, slots=True)
class Need:
    """An operation on the resources that a request names at `path`.

    "group_id" is a field of the request, "groups" a list of names, "topics.name" a list of structs and the field with the name.
    Without a path it is the cluster. A topic named by its id alone is looked up. Without a resource each struct says of what type
    its own is, as those of settings do. With `when` it is needed only by requests in which that field is set.
    """

    operation: Operation
    resource: Resource | None
    path: str = ""
    when: str = ""

    def check_declared(self, message: type[Message]) -> None:
        """Raise `TypeError` where the path is none of the message's fields: a need that names nothing would hold nobody back."""
        head, _, by = self.path.partition(".")
        fields = {field.name: field for field in message.WIRE.fields}
        if self.when and self.when not in fields:
            raise TypeError(f"{message.__name__} has no field {self.when}, on which a need is said to depend")
        inner = fields[head].of if head in fields else None
        if head and (head not in fields or (by and (inner is None or by not in {field.name for field in inner.WIRE.fields}))):
            raise TypeError(f"{message.__name__} has no field {self.path}, which is said to name a resource")


class Authorizer(Protocol):
    """Who may do what."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool: ...


class Everybody:
    """The authorizer where there is none: everybody may do everything."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return True


class Guard:
    """Takes out of each request what its client may not ask for. `name_of` tells a topic by its id."""

    def __init__(self, authorizer: Authorizer, name_of: Callable[[bytes], str | None]) -> None:
        self._authorizer = authorizer
        self._name_of = name_of

    def refused(self, request: Request[Message], needs: Iterable[Need]) -> Message | Close | None:
        """The response if nothing of the request may be served; else what may be is left, and `request.denied` answers the rest."""
        for need in needs:
            if need.when and not getattr(request.body, need.when):
                continue
            head, _, by = need.path.partition(".")
            named = getattr(request.body, head) if head else CLUSTER_NAME
            if isinstance(named, list):
                left = self._sort_out(request, need, head, [(item, *self._resource(need, item, by)) for item in named])
            else:
                left = named is None or need.resource is None or self._allows(request, need, need.resource, named)
            if not left:
                return request.denied or _refusal(request, need.resource, request.body) or Close(_closing(request, need))
        return None

    def _sort_out(self, request: Request[Message], need: Need, head: str, named: list[tuple[object, Resource, str]]) -> bool:
        """Leave in the request what may be asked for, and have the rest answered. Whether anything is left, or was never there."""
        denied: dict[Resource, list[object]] = {}
        allowed: list[object] = []
        for item, resource, name in named:
            (allowed if self._allows(request, need, resource, name) else denied.setdefault(resource, [])).append(item)
        for resource, items in denied.items():
            response = _refusal(request, resource, _with(request.body, head, items))
            if response is not None:
                request.denied = response if request.denied is None else joined(response, request.denied)
        if denied:
            request.body = _with(request.body, head, allowed)
        return bool(allowed) or not denied

    def _allows(self, request: Request[Message], need: Need, resource: Resource, name: str) -> bool:
        return self._authorizer.allows(request.peer, need.operation, resource, name)

    def _resource(self, need: Need, item: object, by: str) -> tuple[Resource, str]:
        """Of what type an item's resource is, and its name."""
        if isinstance(item, str):
            return need.resource or Resource.TOPIC, item
        resource = need.resource or BY_CONFIG_TYPE.get(getattr(item, "resource_type", 0), Resource.CLUSTER)
        if resource is Resource.CLUSTER:
            return resource, CLUSTER_NAME
        name: str | None = getattr(item, by)
        return resource, name or self._name_of(getattr(item, "topic_id", b"")) or ""


def _refusal(request: Request[Message], resource: Resource | None, body: Message) -> Message | None:
    error_code = DENIED[resource or Resource.CLUSTER]
    return refusal(request.api, request.version, body, error_code, ERRORS[error_code].sentence)


def _closing(request: Request[Message], need: Need) -> str:
    return f"{request.peer.principal} may not {need.operation.name.lower()}, and a {request.api.name} response cannot say so"


def _with(body: Message, field: str, items: list[object]) -> Message:
    """The same request with another list."""
    other = copy(body)
    setattr(other, field, items)
    return other

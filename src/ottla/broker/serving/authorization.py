"""Declared permissions of requests: the operation and the resource, declared beside each handler and checked in one place.

Contains resources and operations by Kafka's numbers (KIP-11, KIP-430), and no ACLs. `Rights` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.security.rights import Rights
from ottla.broker.serving.refusals import join, refusal
from ottla.broker.serving.request import Close, Peer, Request
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.acls import Operation as Operation
from ottla.cluster.acls import Resource as Resource
from ottla.cluster.names import printable
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ERRORS,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from ottla.wire.schema import Message, Struct

BY_CONFIG_TYPE: Final = {2: Resource.TOPIC, 4: Resource.CLUSTER, 32: Resource.GROUP}
"""The resource types of DescribeConfigs and AlterConfigs."""
DENIED: Final = {
    Resource.TOPIC: TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that a request needs: an operation on the resources that the request names at `path`.

    A path is a field ("group_id"), a list of names ("groups"), or a list of structs and their field with the name ("topics.name").
    Without a path, the resource is the cluster. A topic without a name is found by its id. If `resource` is None, each struct has a
    resource type, as in configs. `when` and `versions` select the requests that have the need. A client that may perform `instead`
    on the cluster needs nothing else. `head` and `by` are the two parts of the path.
    """

    operation: Operation
    resource: Resource | None
    path: str = ""
    when: Callable[[Any], object] | None = None
    versions: range | None = None
    instead: Operation | None = None
    head: str = field(init=False)
    by: str = field(init=False)
    is_conditional: bool = field(init=False)

    def __post_init__(self) -> None:
        """Split the path into `head` and `by` once, instead of for each request."""
        head, _, by = self.path.partition(".")
        when = self.when is not None or self.versions is not None or self.instead is not None
        for name, value in (("head", head), ("by", by), ("is_conditional", when)):
            object.__setattr__(self, name, value)

    def check_declared(self, message: type[Message]) -> None:
        """Raise `TypeError` if the message has no field `path`, because a need without resources would permit everything."""
        head, by = self.head, self.by
        fields = {field.name: field for field in message.WIRE.fields}
        inner = fields[head].of if head in fields else None
        if head and (head not in fields or (by and (inner is None or by not in {field.name for field in inner.WIRE.fields}))):
            raise TypeError(f"{message.__name__} has no field {self.path}, which is said to name a resource")


class Guard:
    """Checks the permissions of requests, and removes items that the client may not access. `name_of` finds a topic by id."""

    def __init__(self, rights: Rights, name_of: Callable[[bytes], str | None]) -> None:
        self._rights = rights
        self._name_of = name_of

    def apply(self, request: Request[Message], needs: Iterable[Need]) -> Message | Close | None:
        """Remove refused items, and add their errors to `request.denied`. If no item is left, return the response, else None."""
        for need in needs:
            named = getattr(request.body, need.head) if need.head else CLUSTER_NAME
            if (
                named is None
                or (need.is_conditional and not self._applies(need, request))
                or self._allows(request.peer, need, named)
            ):
                continue  # the usual case, which must be cheap
            if not self._sort_out(request, need, named):
                denied, request.denied = request.denied, None
                return denied or _refusal(request, need.resource, request.body) or _refuse_without_field(request, need)
        return None

    def _applies(self, need: Need, request: Request[Message]) -> bool:
        """Return whether a need applies to the request's content and version, and its client lacks the operation `instead`."""
        if (need.when is not None and not need.when(request.body)) or (need.versions and request.version not in need.versions):
            return False
        return need.instead is None or not self._rights.may(request.peer, need.instead, Resource.CLUSTER, CLUSTER_NAME)

    def _allows(self, peer: Peer, need: Need, named: object) -> bool:
        """Return whether the client may access everything in `named`, a name or a list."""
        if need.resource is None:
            return False
        answers = self._rights.answers(peer, need.operation, need.resource)
        if not isinstance(named, list):
            return answers[str(named)]
        by = need.by
        for item in named:
            name = (getattr(item, by) or self._name(item, by)) if by else item
            if name is not None and not answers[name]:
                return False
        return True

    def _sort_out(self, request: Request[Message], need: Need, named: object) -> bool:
        """Remove refused items from the request, and add their errors to `request.denied`. Return whether any item is left."""
        if not isinstance(named, list):
            resource = need.resource or Resource.CLUSTER
            self._rights.log_refusal(request.peer, need.operation, resource, (str(named),), request.api.name, request.now)
            return False
        resources = [self._resource(need, item) for item in named]
        answers = {kind: self._rights.answers(request.peer, need.operation, kind) for kind in {kind for kind, _ in resources}}
        if all(name is None or answers[kind][name] for kind, name in resources):
            return True
        denied: dict[Resource, list[object]] = {}
        allowed: list[object] = []
        for item, (kind, name) in zip(named, resources, strict=True):
            is_allowed = name is None or answers[kind][name]
            (allowed if is_allowed else denied.setdefault(kind, [])).append(item)
        for kind, items in denied.items():
            names = [name for resource, name in resources if resource is kind and name is not None and not answers[kind][name]]
            self._rights.log_refusal(request.peer, need.operation, kind, names, request.api.name, request.now)
            response = _refusal(request, kind, _with(request.body, need.head, items), of_items=True)
            if response is not None:
                request.denied = response if request.denied is None else join(response, request.denied)
        request.body = _with(request.body, need.head, allowed)
        return bool(allowed)

    def _resource(self, need: Need, item: Any) -> tuple[Resource, str | None]:
        """Return the type and name of an item's resource; the name is None for an unknown topic id."""
        if isinstance(item, str):
            return need.resource or Resource.TOPIC, item
        resource = need.resource or BY_CONFIG_TYPE.get(getattr(item, "resource_type", 0), Resource.CLUSTER)
        if resource is Resource.CLUSTER:
            return resource, CLUSTER_NAME
        return resource, getattr(item, need.by) or self._name(item, need.by)

    def _name(self, item: Any, by: str) -> str | None:
        """Return an item's name; if it has only a topic id, return the topic's name, or None if the id is unknown."""
        name: str | None = self._name_of(item.topic_id) if hasattr(item, "topic_id") else getattr(item, by)
        return name


def _refusal(request: Request[Message], resource: Resource | None, body: Message, *, of_items: bool = False) -> Message | None:
    error_code = DENIED[resource or Resource.CLUSTER]
    return refusal(request.api, request.version, body, error_code, ERRORS[error_code].sentence, of_items=of_items)


def _refuse_without_field(request: Request[Message], need: Need) -> Message | Close:
    """Return the refusal for a response without a field for the error: an empty response or a close, as in Kafka.

    The response is also empty if the request lists no item, so that there is no place for an error.
    """
    if need.resource is Resource.CLUSTER or _is_empty(request.body):
        return request.api.response()
    who, what = printable(request.peer.principal), need.operation.name.lower()
    return Close(f"{who} may not {what}, and a {request.api.name} response has no error for it")


def _is_empty(asked: Struct) -> bool:
    """Return whether a request names nothing: each of its lists is present and empty, or its items have only empty lists."""
    lists = [getattr(asked, field.name) for field in asked.WIRE.fields if field.array]
    return bool(lists) and all(
        found is not None and all(isinstance(each, Struct) and _is_empty(each) for each in found) for found in lists
    )


def _with(body: Message, field: str, items: list[object]) -> Message:
    other = copy(body)
    setattr(other, field, items)
    return other

"""Which handler serves which API, in which versions, and what it needs: declared beside each handler by `serves`, found here.

A handler is a function of a request, or a generator of steps over `request.parts()`. Each further parameter gets the part of the
broker that has its annotated type, or a `NamedTuple` of them (a context): they are found once, at start-up. The rights that the API
needs are declared beside the handler and checked by the router, and so is the division of its lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Concatenate, Final, ParamSpec, TypeVar, get_origin, get_type_hints

import ottla.broker.handlers
from ottla.broker.releases import Release
from ottla.broker.serving.authorization import Need
from ottla.broker.serving.parts import NEVER, Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.wire.apis import API, Api
from ottla.wire.schema import Message

MOST_BYTES: Final = 8 << 20
"""Of a request that cannot be divided: to read and to answer so many takes up to 50 ms."""

B = TypeVar("B", bound=Message)
P = ParamSpec("P")


_hints = cache(get_type_hints)
"""Evaluated once, however many brokers there are in a process."""


@cache
def _parameters(handler: Callable[..., object]) -> Mapping[str, object]:
    """Return the types of a handler's parameters by name. That of its result is recursive, and is not evaluated."""
    given = SimpleNamespace(__annotations__={name: hint for name, hint in handler.__annotations__.items() if name != "return"})
    return get_type_hints(given, vars(import_module(handler.__module__)))


@dataclass(frozen=True, slots=True)
class Route:
    """One API as this broker serves it.

    `controller_only` has it refused with NOT_CONTROLLER by a broker that is not the controller. `parts` says how a request that
    names many things is divided. One that cannot be divided may name no more than `most` things, if that is not 0, and have no more
    than `most_bytes` bytes. Where the setting `switch` is on, all versions of its declaration are served, whatever a release
    announces. Only brokers ask what is `cluster_only`. Steps that change something run `to_the_end`,
    though the client may be gone.
    """

    api: Api
    message: type[Message]
    versions: range
    needs: tuple[Need, ...]
    controller_only: bool
    handler: Callable[..., Reply]
    parts: Parts | None = None
    most: int = 0
    switch: str = ""
    cluster_only: bool = False
    most_bytes: int = MOST_BYTES
    to_the_end: bool = False

    def whole_bytes(self, version: int) -> int:
        """Up to which size a request of a version cannot name too many things to be read and served at once."""
        if self.parts is None:
            return self.most or self.most_bytes
        return NEVER if self.parts.paths_of(self.api.request, version) is None else self.parts.whole_bytes

    def bind(self, rooms: Mapping[object, object]) -> Callable[[Request[Message]], Reply]:
        """The handler with its rooms. Raises `TypeError` if there is no room of a type that it asks for."""
        taken = {name: hint for name, hint in _parameters(self.handler).items() if get_origin(hint) is not Request}
        return partial(self.handler, **{name: self._room(name, hint, rooms) for name, hint in taken.items()})

    def _room(self, name: str, hint: object, rooms: Mapping[object, object]) -> object:
        if hint in rooms:
            return rooms[hint]
        if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
            fields: dict[str, object] = {field: self._room(field, inner, rooms) for field, inner in _hints(hint).items()}
            grouped: object = hint(**fields)
            return grouped
        raise TypeError(f"{self.handler.__qualname__} takes a room that this broker has not: {name}: {hint}")


def serves(
    message: type[B],
    *needs: Need,
    newest: int | None = None,
    controller_only: bool = False,
    parts: Parts | None = None,
    most: int = 0,
    switch: str = "",
    cluster_only: bool = False,
    most_bytes: int = MOST_BYTES,
    to_the_end: bool = False,
) -> Callable[[Callable[Concatenate[Request[B], P], Reply]], Route]:
    """Register a handler for an API by its request's class: in all versions of its declaration, or up to `newest`.

    Those above `newest` are served where the broker's setting `switch` is on.
    """
    for need in needs:
        need.check_declared(message)
    valid = message.WIRE.valid
    versions = valid if newest is None else range(valid.start, newest + 1)

    def register(handler: Callable[Concatenate[Request[B], P], Reply]) -> Route:
        return Route(
            API[message.WIRE.key],
            message,
            versions,
            needs,
            controller_only,
            handler,
            parts,
            most,
            switch,
            cluster_only,
            NEVER if parts else most_bytes,
            to_the_end,
        )

    return register


class Served:
    """The APIs that a broker serves, by key. Routes in `instead` go before those of the same API in `routes`.

    `is_on` tells whether a setting that switches versions on is on.
    """

    def __init__(
        self, routes: Iterable[Route], instead: Iterable[Route] = (), is_on: Callable[[str], bool] = lambda switch: False
    ) -> None:
        self.routes = _by_key(routes) | _by_key(instead)
        self._switched_on = {key for key, route in self.routes.items() if route.switch and is_on(route.switch)}
        for key in self._switched_on:
            self.routes[key] = replace(self.routes[key], versions=self.routes[key].message.WIRE.valid)

    def versions(self, release: Release) -> dict[int, range]:
        """API key -> versions that a listener of this release serves: the release's own, as far as there is a handler for them.

        What brokers say to each other is served in all versions: they go by the protocol version of their cluster.
        """
        served = {key: route.versions for key, route in self.routes.items() if route.cluster_only and release.is_today}
        for key, route in self.routes.items():
            if key in release.versions and key not in served:
                served[key] = range(release.versions[key].start, self._stop(release, key, route))
        return dict(sorted(served.items()))

    def _stop(self, release: Release, key: int, route: Route) -> int:
        if key in self._switched_on and release.is_today:
            return route.versions.stop
        return min(release.versions[key].stop, route.versions.stop)


def _by_key(routes: Iterable[Route]) -> dict[int, Route]:
    found: dict[int, Route] = {}
    for route in routes:
        other = found.get(route.api.key)
        if other is not None:
            raise TypeError(f"{route.api.name} has two handlers: {other.handler} and {route.handler}")
        found[route.api.key] = route
    return found


@cache
def all_routes(*, for_brokers: bool = False) -> tuple[Route, ...]:
    """Return what the modules of `ottla.broker.handlers` register, and `for_brokers` also what only brokers ask each other."""
    modules = (
        import_module(f"{ottla.broker.handlers.__name__}.{found.name}") for found in iter_modules(ottla.broker.handlers.__path__)
    )
    found = (thing for module in modules for thing in vars(module).values() if isinstance(thing, Route))
    return tuple(route for route in found if for_brokers or not route.cluster_only)

"""The handlers of APIs with their versions and permissions: declared beside each handler by `serves`, and found here.

A handler is imported when its API is first requested; `api_table` has its module. It is a function of a request, or a generator of
steps over `request.parts()`. Each further parameter gets the broker's object of its annotated type, or a `NamedTuple` of such
objects (a context), resolved once, with the import. The router checks the declared permissions and divides declared lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from types import SimpleNamespace
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast, get_origin, get_type_hints

from ottla.broker.releases import Release
from ottla.broker.serving.api_table import ListedApi
from ottla.broker.serving.authorization import Need
from ottla.broker.serving.parts import NEVER, Parts
from ottla.broker.serving.purgatory import Reply, Result
from ottla.broker.serving.request import Request
from ottla.values import dataclass
from ottla.wire.apis import API, Api
from ottla.wire.schema import Message, Struct

MOST_BYTES: Final = 8 << 20
"""Upper limit in bytes of a request that can't be divided: decoding and answering it takes up to 50 ms."""

B = TypeVar("B", bound=Message)
P = ParamSpec("P")

Handler: TypeAlias = Callable[[Request[Message]], Result]
"""A handler whose further parameters are bound."""


_hints = cache(get_type_hints)
"""Return a handler's type hints. They are cached, because a process can have many brokers."""


@cache
def _parameters(handler: Callable[..., object]) -> Mapping[str, object]:
    """Return the types of a handler's parameters by name. The result's type is not evaluated, because it is recursive."""
    given = SimpleNamespace(__annotations__={name: hint for name, hint in handler.__annotations__.items() if name != "return"})
    return get_type_hints(given, vars(import_module(handler.__module__)))


@dataclass(frozen=True, slots=True)
class Route:
    """One API as this broker serves it: the handler, and the limits of its requests.

    `controller_only`: other brokers than the controller refuse the API with NOT_CONTROLLER. `parts` is the division of a request
    with large lists. Other requests have at most `most` items, unless `most` is 0, and at most `most_bytes` bytes. `to_the_end`:
    steps that change state continue after the client has disconnected.
    """

    api: Api
    message: type[Message]
    versions: range
    needs: tuple[Need, ...]
    controller_only: bool
    handler: Callable[..., Reply]
    parts: Parts | None = None
    most: int = 0
    most_bytes: int = MOST_BYTES
    to_the_end: bool = False

    def whole_bytes(self, version: int) -> int:
        """Return up to which size, in bytes, a request of this version can't have large lists."""
        if self.parts is None:
            return self.most or self.most_bytes
        return NEVER if self.parts.paths_of(self.api.request, version) is None else self.parts.whole_bytes

    def bind(self, contexts: Mapping[object, object]) -> Handler:
        """Return the handler with its parameters bound. Raises `TypeError` if this broker has no object of a required type."""
        taken = {name: hint for name, hint in _parameters(self.handler).items() if get_origin(hint) is not Request}
        return cast("Handler", partial(self.handler, **{name: self._context(name, hint, contexts) for name, hint in taken.items()}))

    def _context(self, name: str, hint: object, contexts: Mapping[object, object]) -> object:
        if hint in contexts:
            return contexts[hint]
        if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
            fields: dict[str, object] = {field: self._context(field, inner, contexts) for field, inner in _hints(hint).items()}
            grouped: object = hint(**fields)
            return grouped
        raise TypeError(f"{self.handler.__qualname__} takes a room that this broker has not: {name}: {hint}")


def serves(
    message: type[B],
    *needs: Need,
    oldest: int | None = None,
    newest: int | None = None,
    controller_only: bool = False,
    parts: Parts | None = None,
    most: int = 0,
    most_bytes: int = MOST_BYTES,
    to_the_end: bool = False,
) -> Callable[[Callable[Concatenate[Request[B], P], Reply]], Route]:
    """Register a handler for the API of a request class: for all declared versions, or from `oldest` to `newest`.

    A request with arrays needs `parts` or `most`. Otherwise one request could occupy the broker for long.
    """
    if not parts and not most and _has_arrays(message):
        raise TypeError(f"{message.__name__} has arrays: declare the `parts` in which they are served, or the `most` items of them")
    for need in needs:
        need.check_declared(message)
    valid = message.WIRE.valid
    versions = range(valid.start if oldest is None else oldest, valid.stop if newest is None else newest + 1)

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
            NEVER if parts else most_bytes,
            to_the_end,
        )

    return register


def _has_arrays(kind: type[Struct]) -> bool:
    return any(field.array or (field.kind == "struct" and _has_arrays(field.struct)) for field in kind.WIRE.fields)


class Served:
    """The APIs that a broker serves, by key. A route in `instead` replaces the handler of its API in the table `listed`.

    `is_on` returns whether a setting, the `switch` of an API, is true.
    """

    def __init__(
        self, listed: Iterable[ListedApi], instead: Iterable[Route] = (), is_on: Callable[[str], bool] = lambda switch: False
    ) -> None:
        self.given = _by_key(instead)
        self._modules = {each.key: each.module for each in listed}
        self._versions = {each.key: each.switched if each.switch and is_on(each.switch) else each.versions for each in listed}
        self._versions |= {key: route.versions for key, route in self.given.items()}

    @property
    def keys(self) -> Collection[int]:
        """Return the keys of all APIs, the most important ones first."""
        return self._versions.keys()

    def route(self, key: int) -> Route:
        """Return the route of an API, one of `keys`. The first call imports its handler."""
        given = self.given.get(key)
        return replace(_route_in(self._modules[key], key), versions=self._versions[key]) if given is None else given

    def versions(self, release: Release) -> dict[int, range]:
        """Return API key -> versions for a listener of this release: the release's versions that have a handler."""
        served = sorted(self._versions.items())
        if release.is_today:
            return dict(served)
        known = release.versions
        return {key: range(known[key].start, min(known[key].stop, ours.stop)) for key, ours in served if key in known}


def _by_key(routes: Iterable[Route]) -> dict[int, Route]:
    found: dict[int, Route] = {}
    for route in routes:
        other = found.get(route.api.key)
        if other is not None:
            raise TypeError(f"{route.api.name} has two handlers: {other.handler} and {route.handler}")
        found[route.api.key] = route
    return found


def _route_in(module: str, key: int) -> Route:
    """Return the route of an API that a module of `ottla.broker.handlers` declares."""
    declared = vars(import_module(f"ottla.broker.handlers.{module}")).values()
    return next(each for each in declared if isinstance(each, Route) and each.api.key == key)

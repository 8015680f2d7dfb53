"""A schema registry that listens at an address: an instance behind an HTTP server on its own thread."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from ottla.schema_registry.leadership import InstanceIdentity
from ottla.schema_registry.server.app import make_app
from ottla.schema_registry.server.registry import RegistryOptions, SchemaRegistryServer
from ottla.schemas.libraries import library
from ottla.web.address import WebAddress
from ottla.web.guard import RequestGuard, hosts_of
from ottla.web.server import TlsFiles, WebServer

LIBRARIES = {"jsonschema": "JSON Schema", "google.protobuf": "Protobuf"}
"""The modules without which a registry refuses to start, since it could not check schemas of these formats."""
MOST_BODY = 16 << 20
"""The size, in bytes, of the largest request: a schema of several megabytes."""


@dataclass(frozen=True)
class ListenOptions:
    """Where and to whom a registry answers. `advertised` is its address for other instances, by default the one it listens at."""

    address: WebAddress
    advertised: WebAddress | None = None
    tls: TlsFiles | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    allowed_hosts: Iterable[str] = ()


class SchemaRegistryInstance:
    """An instance behind an HTTP server. `settings` are keyword arguments of Ottla's clients.

    An instance that this machine alone can reach answers to its own names only, so that no page of another site can use it from a
    browser. `option` is the command-line option that has the address, for messages.
    """

    def __init__(
        self, settings: Mapping[str, Any], listen: ListenOptions, options: RegistryOptions, option: str = "--listen"
    ) -> None:
        self._listen = listen
        self._registry = SchemaRegistryServer(settings, self._identify, options)
        app = make_app(self._registry, listen.users, None if listen.tls is None else _trust(listen.tls))
        hosts = hosts_of(listen.address, listen.allowed_hosts) if listen.address.is_loopback else None
        guard = RequestGuard(app, hosts=hosts, most_body=MOST_BODY)
        self.server = WebServer(guard, listen.address, name="schema registry", option=option, tls=listen.tls)

    def _identify(self) -> InstanceIdentity:
        found = self._listen.advertised or self.server.address
        return InstanceIdentity(found.host, found.port, "https" if self._listen.tls else "http")

    def start(self) -> Self:
        """Listen, and return once the topic was read. Raises `CannotServe`, `KafkaError`, `SettingError`."""
        for module, format_name in LIBRARIES.items():
            library(module, format_name)
        self.server.start()
        if self._registry.failure is not None:
            self.stop()
            raise self._registry.failure
        return self

    def stop(self) -> None:
        """Stop listening, leave the group, and return when all connections are closed."""
        self.server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def _trust(tls: TlsFiles) -> ssl.SSLContext:
    """Return what to trust of other instances: the system's authorities, and the own certificate. Raises `CannotServe`."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(tls.certificate)
    except (OSError, ssl.SSLError):
        tls.context()  # it raises the sentence for a file that is no certificate
    return context

"""Instances of a schema registry in the test's process, and requests to them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ottla.schema_registry.server.instance import ListenOptions, SchemaRegistryInstance
from ottla.schema_registry.server.registry import RegistryOptions
from ottla.web.address import WebAddress
from tests.support.http_answers import request

JSON = {"Content-Type": "application/json"}
_numbers = itertools.count(1)


class Instance:
    """A running instance."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Send a request; return the status, the JSON of the answer, and its headers."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        wanted = {"Content-Type": "application/vnd.schemaregistry.v1+json", **(headers or {})}
        answer = request(self.url, path, method=method, body=data, headers=wanted)
        return answer.status, answer.json(), answer.headers

    def status(self, method: str, path: str, body: object) -> int:
        """Send a request; return the status of its answer."""
        data = None if body is None else json.dumps(body).encode()
        return request(self.url, path, method=method, body=data, headers=JSON).status

    def register(self, subject: str, text: str, **more: object) -> Any:
        """Register a schema, and return the answer."""
        status, found, _ = self.ask("POST", f"/subjects/{subject}/versions", {"schema": text, **more})
        assert status == 200, found
        return found


def fresh_options() -> RegistryOptions:
    """Return a topic and a group of its own."""
    number = next(_numbers)
    return RegistryOptions(f"_schemas-{number}", f"registry-{number}")


@contextmanager
def instance(
    address: str, options: RegistryOptions | None = None, *, login: Mapping[str, str] = {}, **listen: Any
) -> Iterator[Instance]:
    """Return a context manager with an instance on the cluster at `address`."""
    wanted = ListenOptions(WebAddress("127.0.0.1", 0), **listen)
    with SchemaRegistryInstance({"bootstrap_servers": address, **login}, wanted, options or fresh_options()) as running:
        yield Instance(running.server.url)

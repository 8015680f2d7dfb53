"""One request to a real HTTP server, and its answer: for tests that need no session of a browser."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

TIMEOUT_S = 30


class HttpAnswer(NamedTuple):
    """An answer. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str

    def json(self) -> Any:
        """Return the body, or None if there is none."""
        return json.loads(self.text) if self.text else None


def request(
    url: str,
    target: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    trust: ssl.SSLContext | None = None,
) -> HttpAnswer:
    """Send a request to the server at a URL, on a connection of its own. `target` is sent as it is given. Raises OSError."""
    scheme, _, netloc = url.partition("://")
    if scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(netloc, timeout=TIMEOUT_S, context=trust)
    else:
        connection = http.client.HTTPConnection(netloc, timeout=TIMEOUT_S)
    try:
        connection.request(method, target, body, dict(headers or {}))
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode())
    finally:
        connection.close()

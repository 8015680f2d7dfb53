"""The ASGI application of the schema registry."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import http.client
import json
import logging
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from ottla.schema_registry.leadership import InstanceIdentity
from ottla.schema_registry.refusals import RegistryRefusal
from ottla.schema_registry.server.http_request import RegistryRequest, split_path
from ottla.schema_registry.server.registry import LEADER_WAIT_S, SchemaRegistryServer
from ottla.schema_registry.server.routes import EMPTY_ANSWER, RegistryRoute, Text, find_route, reply_to, within_context
from ottla.version import VERSION

log = logging.getLogger("ottla.schema_registry")

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
ACCEPTED = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream")
FORWARDED = "x-ottla-forwarded"
FORWARD_TIMEOUT_S = 15
RETRY_S = 0.2
REALM = 'Basic realm="schema registry"'
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


class RegistryApp:
    """Answers requests for one instance. `users` maps the names of users to their passwords; without users all may do all."""

    def __init__(self, registry: SchemaRegistryServer, users: Mapping[str, str], trust: ssl.SSLContext | None) -> None:
        self._registry, self._users, self._trust = registry, users, trust

    async def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        try:
            if not self._is_allowed(request.headers.get("authorization", "")):
                return _answer({"error_code": 401, "message": "Unauthorized"}, request, 401, {"www-authenticate": REALM})
            return await self._route(request)
        except RegistryRefusal as refusal:
            if refusal.status >= 500:
                log.warning("%s %s failed: %s", request.method, request.url.path, refusal.message)
            return _answer({"error_code": refusal.code, "message": refusal.message}, request, refusal.status)

    def _is_allowed(self, header: str) -> bool:
        if not self._users:
            return True
        try:
            user, _, password = base64.b64decode(header.removeprefix("Basic "), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return hmac.compare_digest(self._users.get(user, "\0").encode(), password.encode()) and user in self._users

    async def _route(self, request: Request) -> Response:
        raw = request.scope.get("raw_path") or urllib.parse.quote(request.url.path).encode()
        parts, query = within_context(split_path(raw), urllib.parse.parse_qs(request.url.query, keep_blank_values=True))
        if parts[:2] == ["v1", "metadata"] and request.method in ("GET", "HEAD"):
            return _answer(self._metadata("/".join(parts[2:])), request)
        route, names = find_route(request.method, parts)
        _check_media_types(request)
        asked = RegistryRequest(request.method, request.url.path, names, query, await request.body())
        if route.read is not None:
            read, machine = route.read, self._registry.machine
            return _answer(await self._registry.store.compute(lambda: read(machine, asked), len(asked.body)), request)
        return await self._change(route, asked, request)

    async def _change(self, route: RegistryRoute, asked: RegistryRequest, request: Request) -> Response:
        assert route.write is not None
        change = route.write(self._registry.machine, asked)
        deadline = asyncio.get_running_loop().time() + LEADER_WAIT_S
        while True:
            leader = await self._registry.leader()
            if leader is None:
                reply = reply_to(change, await self._registry.change(change, len(asked.body)))
                return Response(status_code=204) if isinstance(change, EMPTY_ANSWER) else _answer(reply, request)
            try:
                return await self._forward(leader, asked, request)
            except ConnectionRefusedError as error:  # it has ended, and another one is elected soon
                if asyncio.get_running_loop().time() > deadline:
                    raise _not_forwarded(leader, error) from None
            await asyncio.sleep(RETRY_S)

    async def _forward(self, leader: InstanceIdentity, asked: RegistryRequest, request: Request) -> Response:
        """Return the leader's response to a change, once its records were read here, too."""
        if FORWARDED in request.headers:
            raise RegistryRefusal(50003, "Error while forwarding the request to the primary: it is not the leader any more.")
        kept = {name: request.headers[name] for name in ("authorization", "content-type", "accept") if name in request.headers}
        target = (request.scope.get("raw_path") or b"/").decode("latin-1").partition("?")[0]
        if request.url.query:
            target += f"?{request.url.query}"
        try:
            status, body = await asyncio.to_thread(self._send, leader, (request.method, target), asked.body, kept)
        except ConnectionRefusedError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise _not_forwarded(leader, error) from None
        if status < 300:
            await self._registry.store.catch_up()
        return Response(body, status, {"content-type": MEDIA_TYPE})

    def _send(self, leader: InstanceIdentity, line: tuple[str, str], body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a request to the leader, and block meanwhile."""
        if leader.scheme == "https":
            context = self._trust or ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                leader.host, leader.port, timeout=FORWARD_TIMEOUT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(leader.host, leader.port, timeout=FORWARD_TIMEOUT_S)
        try:
            connection.request(*line, body, {**headers, FORWARDED: "true"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _metadata(self, name: str) -> Any:
        store, options = self._registry.store, self._registry.options
        clusters = {"kafka-cluster": store.cluster_id, "schema-registry-cluster": options.group}
        found = {
            "id": {"scope": {"path": [], "clusters": clusters}, "id": ""},
            "version": {"version": f"ottla {VERSION}", "commitId": ""},
        }
        if name not in found:
            raise RegistryRefusal(404, "HTTP 404 Not Found")
        return found[name]


def _not_forwarded(leader: InstanceIdentity, error: Exception) -> RegistryRefusal:
    return RegistryRefusal(50003, f"Error while forwarding the request to the primary at {leader.url}: {error}.")


def _check_media_types(request: Request) -> None:
    """Refuse bodies that are no JSON, and clients that accept no JSON. Raises `RegistryRefusal`."""
    given = request.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip().lower()
    if request.method in ("POST", "PUT") and given not in ACCEPTED:
        raise RegistryRefusal(415, "HTTP 415 Unsupported Media Type")
    if not _accepted_types(request):
        raise RegistryRefusal(406, "HTTP 406 Not Acceptable")


def _accepted_types(request: Request) -> list[str]:
    """Return the media types of answers that a client accepts."""
    header = request.headers.get("accept") or "*/*"
    names = [part.partition(";")[0].strip().lower() for part in header.split(",")]
    if any(each in ("*/*", "application/*", "text/html", "text/plain", "text/*") for each in names):
        return [MEDIA_TYPE]
    return [each for each in names if each in ACCEPTED]


def _answer(reply: Any, request: Request, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = reply if isinstance(reply, Text) else json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
    media_type = MEDIA_TYPE if MEDIA_TYPE in (accepted := _accepted_types(request) or [MEDIA_TYPE]) else accepted[0]
    return Response(body.encode(errors="replace"), status, {**(headers or {}), "content-type": media_type})


def make_app(
    registry: SchemaRegistryServer, users: Mapping[str, str] | None = None, trust: ssl.SSLContext | None = None
) -> Starlette:
    """Return the application of an instance, which starts and stops with it."""
    app = RegistryApp(registry, users or {}, trust)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await registry.start()
            yield
        finally:
            await registry.close()

    return Starlette(routes=[StarletteRoute("/{path:path}", app.answer, methods=METHODS)], lifespan=lifespan)

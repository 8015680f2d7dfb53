"""The guard around an application: host names, sizes of requests, what browsers may do with a page, and the cost of an error.

It is an ASGI application itself, and depends on no page.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from starlette.requests import ClientDisconnect

from ottla.web.address import WebAddress

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("ottla.web")

TOO_LARGE = 413
MOST_BODY = 2 << 20
"""The default limit of a request's body, in bytes."""
BODY_S = 30
"""The time, in s, for the next piece of a request's body."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


DRAINED_BYTES = 16 << 20
DRAIN_S = 5
"""The bytes and the time, in s, that the rest of a refused body is read for: a client reads the refusal only when all is sent."""


class _Disconnected(Exception):
    """The connection can take no response: the client has left, or has sent something that is not HTTP."""


class _Refused(Exception):
    """A request that is not passed on. `status` is HTTP's, and the message a sentence. `has_rest`: its body has not ended."""

    def __init__(self, status: int, sentence: str, *, has_rest: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.has_rest = has_rest


class RequestGuard:
    """An ASGI application that guards another one.

    - A request must have one of `hosts` (names without ports) or an IP address in its Host header. A page of another site, whose
      name was made to resolve to this server (DNS rebinding), has its own name there. None allows every name, for servers without
      secrets.
    - A body of more than `most_body` bytes is refused with 413, and one that stops for 30 s with 408.
    - Each response has headers that forbid inline scripts, frames and guesses of types, and, unless the application says otherwise,
      caches.
    - An exception that the application raises costs this request alone: 500, and one entry in the log.
    """

    def __init__(self, app: App, *, hosts: Iterable[str] | None, most_body: int = MOST_BODY) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(name.lower() for name in hosts)
        self._most_body = most_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with suppress(_Disconnected, ClientDisconnect):
            await self._answer(scope, receive, _Response(send))

    async def _answer(self, scope: Scope, receive: Receive, response: _Response) -> None:
        try:
            self._check(scope)
            await self._app(scope, self._limit_body(receive), response.send)
            await response.release()
        except (_Disconnected, ClientDisconnect):
            raise
        except _Refused as refused:
            if refused.has_rest:
                await _drain(receive)
            await response.refuse(refused.status, str(refused), scope)
        except Exception:
            path = scope.get("path", "")[:200]
            log.exception("a request failed unexpectedly: %s %r", scope.get("method"), path, extra={"cause": f"request of {path}"})
            await response.refuse(500, "Something went wrong here: the server's log has the error.", scope)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        name = _host_name(headers.get(b"host", b""))
        if self._hosts is not None and name not in self._hosts and not _is_ip_address(name):
            raise _Refused(
                421, "This server does not answer for that host name: use its address, or allow the name with --allow-host."
            )
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._most_body:
            raise _Refused(TOO_LARGE, self._too_large(), has_rest=True)

    def _limit_body(self, receive: Receive) -> Receive:
        """Return a `receive` that limits the size of a body, and the time to wait for its next piece."""
        left = self._most_body
        is_complete = False

        async def receive_limited() -> Message:
            nonlocal left, is_complete
            if is_complete:  # the wait for the client to go away may take as long as a stream
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), BODY_S)
            except TimeoutError:
                raise _Refused(408, "The request's body did not arrive in time: send it again.") from None
            is_complete = not message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise _Refused(TOO_LARGE, self._too_large(), has_rest=not is_complete)
            return message

        return receive_limited

    def _too_large(self) -> str:
        return f"The request is too large: send at most {self._most_body} bytes."


class _Response:
    """The response of one request: adds the headers of the guard, and records whether it has begun.

    A response 500 is held back until the application has returned: Starlette sends one of its own before it raises an exception.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_begun = False
        self._held: list[Message] = []

    async def send(self, message: Message) -> None:
        if self._held or message.get("status") == 500:
            self._held.append(message)
        else:
            await self._send_on(message)

    async def release(self) -> None:
        """Send the messages that were held back."""
        for message in self._held:
            await self._send_on(message)

    async def _send_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_begun = True
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            given += [(name, value) for name, value in HEADERS if name not in names]
            if b"cache-control" not in names:
                given.append((b"cache-control", b"no-store"))
            message = {**message, "headers": given}
        try:
            await self._send(message)
        except Exception as error:  # of the connection: the application is not running here
            raise _Disconnected from error

    async def refuse(self, status: int, sentence: str, scope: Scope) -> None:
        """Answer with a sentence: as JSON, unless the client prefers pages. A response that has begun is cut off."""
        if self._is_begun:
            raise ConnectionAbortedError(sentence)  # uvicorn then closes the connection
        is_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        body = (sentence + "\n").encode() if is_page else json.dumps({"error": sentence}).encode()
        kind = b"text/plain; charset=utf-8" if is_page else b"application/json"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        await self._send_on({"type": "http.response.start", "status": status, "headers": headers})
        await self._send_on({"type": "http.response.body", "body": body})


async def _drain(receive: Receive) -> None:
    """Read the rest of a body, within bounds."""
    left = DRAINED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            message = await receive()
            while message.get("more_body") and left > 0:
                left -= len(message.get("body", b""))
                message = await receive()


def _is_ip_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(header: bytes) -> str:
    """Return the name in a Host header without its port, in lower case."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def hosts_of(address: WebAddress, allowed: Iterable[str] = ()) -> list[str]:
    """Return the host names that requests to this address may have: its own, localhost and `allowed`."""
    return [*allowed, "localhost", *([] if address.is_wildcard else [address.host])]

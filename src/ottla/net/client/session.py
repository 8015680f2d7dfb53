"""The login of one link. It begins once the link is open, and is renewed before the broker ends it (KIP-368).

Requests wait during a renewal, because a broker accepts none of them then.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.connection.connection import AnswerBody
from ottla.wire.schema import Message

if TYPE_CHECKING:  # imported when needed: plain connections use no SASL
    from ottla.net.client.security import Security

log = logging.getLogger("ottla.client")

EARLY, SPREAD = 0.85, 0.10
"""The parts of a login's lifetime after which it is renewed: EARLY, plus a random part of SPREAD.

The random part keeps many links from renewing their logins at once.
"""
LEAST_S = 1.05
"""The least time, in s, between a login and its renewal. Kafka refuses a second renewal within a second."""


class HeldRequest(NamedTuple):
    """A request of a link that waits until the login is renewed."""

    send: Callable[[], None]
    answer: asyncio.Future[AnswerBody]


class Session:
    """The SASL login of a link, and its renewal. `send` sends a request at once; `fail` closes the link with an error.

    `on_renewed` is called with the duration of a renewal, in ms, or with None if it failed.
    """

    def __init__(
        self,
        security: Security,
        host: str,
        where: str,
        send: Callable[[Message], asyncio.Future[AnswerBody]],
        fail: Callable[[BaseException], None],
        on_renewed: Callable[[float | None], None],
    ) -> None:
        self._security, self._host, self._where = security, host, where
        self._send, self._fail, self._note_renewal = send, fail, on_renewed
        self._loop = asyncio.get_running_loop()
        self._renew_at = math.inf
        self._waiting: list[HeldRequest] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._began_s = 0.0

    async def begin(self) -> None:
        """Log in. Raises `AuthenticationFailed`, `ConnectionFailed`, `NotSupported`."""
        exchange = await asyncio.to_thread(self._security.exchange, self._host, self._where)
        exchange.receive_handshake(await self._send(exchange.handshake()))
        request = await asyncio.to_thread(exchange.request)
        while request is not None:
            token = exchange.receive_token(await self._send(request))
            request = await asyncio.to_thread(exchange.request, token)
        if exchange.session_lifetime_ms:
            after_s = exchange.session_lifetime_ms / 1000 * (EARLY + SPREAD * random.random())
            self._renew_at = self._loop.time() + max(LEAST_S, after_s)

    @property
    def is_due(self) -> bool:
        """Return whether requests must wait for a renewal of the login, which may have begun."""
        return self._waiting is not None or self._loop.time() >= self._renew_at

    def hold_if_due(self, send: Callable[[], None], answer: asyncio.Future[AnswerBody]) -> bool:
        """Keep a request if the login must be renewed first, and return whether it is kept. Begin the renewal if it is due.

        `send` is called after the renewal, to send the request.
        """
        if self._waiting is None:
            if self._loop.time() < self._renew_at:
                return False
            self._waiting, self._began_s = [], self._loop.time()
            self._renewing = self._loop.create_task(self.begin())
            self._renewing.add_done_callback(self._on_renewed)
        self._waiting.append(HeldRequest(send, answer))
        return True

    def _on_renewed(self, renewing: asyncio.Task[None]) -> None:
        if renewing.cancelled():
            return
        if (error := renewing.exception()) is not None:
            self._note_renewal(None)
            self._fail(error)
            return
        self._note_renewal((self._loop.time() - self._began_s) * 1000)
        log.debug("the connection to %s renewed its login", self._where)
        waiting, self._waiting = self._waiting or [], None
        for request in waiting:
            if not request.answer.done():
                request.send()

    def end(self, error: BaseException) -> None:
        """Fail the waiting requests with `error`, after the link was closed."""
        if self._renewing is not None:
            self._renewing.cancel()
        for request in self._waiting or ():
            if not request.answer.done():
                request.answer.set_exception(error)
                request.answer.exception()  # keeps asyncio from logging it if no caller waits any more
        self._waiting = None

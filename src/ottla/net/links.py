"""The links to other brokers over asyncio: `ottla.ports.Links`, with the security of the inter-broker listener.

The module opens and authenticates connections; the meaning of requests is unknown here. Answers are passed to the broker's thread
like completions of the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.client.errors import KafkaError
from ottla.net.client.link import Link
from ottla.net.security.link_security import LinkSecurity
from ottla.ports import Buffer

log = logging.getLogger("ottla.net")

Answered = Callable[[memoryview | None], None]
Tell = Callable[[Callable[[], None]], None]
"""A function that runs a call on the broker's thread, as a completion."""

SETUP_MS = 10_000
"""The time limit, in ms, of a connection's setup. It applies whatever the timeout of the connection's first request is."""
RELEASE = "3.9"
"""The Kafka release whose API versions brokers use with each other, because they request ApiVersions only with SASL."""


class BrokerLinks:
    """The connections of one broker to the other brokers.

    Raises `SettingError` if the settings of its inter-broker listener are unusable.
    """

    def __init__(self, node_id: int, settings: BrokerSettings, tell: Tell) -> None:
        self._client_id = f"broker-{node_id}"
        self._security = LinkSecurity(settings)
        self._tell = tell

    def follow(self, settings: SettingsInForce) -> None:
        """Apply settings that change while the broker runs."""
        self._security.follow(settings)

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> PeerLink:
        return PeerLink(host, port, partial(self._connect, receive_buffer_bytes), self._tell)

    async def _connect(self, receive_buffer_bytes: int, host: str, port: int) -> Link:
        security = self._security.found()
        release = None if security is not None and security.uses_sasl else RELEASE
        link = await Link.open(host, port, self._client_id, SETUP_MS, release, security)
        if receive_buffer_bytes > 0:
            link.size_receive_buffer(receive_buffer_bytes)
        return link


@dataclass(slots=True, eq=False, repr=False)
class Pending:
    """A request that is not answered yet."""

    frame: Sequence[Buffer]
    answered: Answered | None
    timer: asyncio.TimerHandle = field(init=False)


class PeerLink:
    """Requests to one broker, in order, over a connection that is opened when needed."""

    def __init__(self, host: str, port: int, connect: Callable[[str, int], Any], tell: Tell) -> None:
        self._host, self._port = host, port
        self._connect = connect
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waiting: list[Pending] = []
        """The requests that wait for a connection."""
        self._was_reached = True

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Answered) -> None:
        request = Pending(frame, answered)
        request.timer = self._loop.call_later(timeout_ms / 1000, self._too_late, request)
        if self._link is not None and not self._link.closed:
            self._pass_on(self._link, request)
            return
        self._waiting.append(request)
        if self._opening is None:
            self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            link = await self._connect(self._host, self._port)
        except (KafkaError, UnicodeError) as error:  # UnicodeError: an impossible host name
            self._opening = None
            self._not_reached(error)
            return
        self._opening, self._link = None, link
        if not self._was_reached:
            self._was_reached = True
            log.info("the broker at %s:%d is reachable again", self._host, self._port)
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._pass_on(link, request)

    def _not_reached(self, error: Exception) -> None:
        """Report a failure to the callers of the waiting requests, which retry after a pause.

        Log only the first failure since the last connection.
        """
        log.log(logging.WARNING if self._was_reached else logging.DEBUG, "another broker is unreachable: %s", error)
        self._was_reached = False
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._end(request, None)

    def _pass_on(self, link: Link, request: Pending) -> None:
        if link.closed:
            self._end(request, None)
        elif request.answered is not None:
            link.pass_on(request.frame).add_done_callback(partial(self._on_answer, request))

    def _on_answer(self, request: Pending, answer: asyncio.Future[Any]) -> None:
        lost = answer.cancelled() or answer.exception() is not None
        self._end(request, None if lost else memoryview(answer.result()))

    def _end(self, request: Pending, frame: memoryview | None) -> None:
        answered, request.answered = request.answered, None
        request.timer.cancel()
        if answered is not None:
            self._tell(partial(answered, frame))

    def _too_late(self, request: Pending) -> None:
        """Report a timeout to the caller of a request, and close the connection.

        Brokers answer in order, so every later answer on the connection would be late, too.
        """
        log.info("the broker at %s:%d did not answer in time: reconnecting", self._host, self._port)
        self._end(request, None)
        if self._link is not None:
            self._link.close()

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._link is not None:
            self._link.close()
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._loop.call_soon(self._end, request, None)

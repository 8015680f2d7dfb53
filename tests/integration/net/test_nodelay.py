"""Replies leave at once: none waits for the peer to acknowledge the one before."""

from __future__ import annotations

import asyncio
import socket

from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.net.server.acceptor import Acceptor, listen
from ottla.net.server.connection_limits import ConnectionLimits


class Noted(asyncio.Protocol):
    """Hands on its transport."""

    def __init__(self, made: asyncio.Future[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set_result(transport)


def test_a_connection_sends_small_parts_at_once() -> None:
    async def connected() -> int:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[asyncio.BaseTransport] = loop.create_future()
        limits = ConnectionLimits(SettingsInForce(BrokerSettings({})), 10, lambda: False, {}, lambda: 0).of("PLAINTEXT")
        acceptor = Acceptor(loop, listen(socket.AF_INET, ("127.0.0.1", 0)), lambda _: Noted(made), limits)
        with socket.create_connection(acceptor.address):
            transport = await made
            nodelay = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.close()
            acceptor.close()
            await asyncio.sleep(0)
        return int(nodelay)

    assert asyncio.run(connected())

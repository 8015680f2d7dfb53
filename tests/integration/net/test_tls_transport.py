"""A transport under TLS, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl

from ottla.net.server.tls_transport import TlsTransport


def test_replies_do_not_wait_for_acknowledgements() -> None:
    """TCP otherwise keeps the end of a reply back until the one before has been acknowledged: fetches took three times as long."""

    async def is_sent_at_once() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
            taken, _ = listener.accept()
            taken.setblocking(False)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure = context.wrap_socket(taken, server_side=True, do_handshake_on_connect=False)
            transport = TlsTransport(asyncio.get_running_loop(), secure, asyncio.BufferedProtocol(), "User:alice")
            said = secure.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.abort()
            await asyncio.sleep(0)
            return said

    assert asyncio.run(is_sent_at_once()) != 0

"""One connection under TLS, as an asyncio transport for its protocol. It works on a socket after the handshake.

Unlike asyncio's own transport, it buffers no input: TLS reads from the socket directly into the protocol's buffer. Only peers that
send partial TLS records use memory. The transport buffers the unsent rest of one write, and then pauses the protocol.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, cast

TURN_BYTES = 256 * 1024
"""The number of bytes read from one connection before other connections are served."""


class TlsTransport(asyncio.Transport):
    """A transport that begins to read at once. Its protocol is a `BufferedProtocol`, its high-water mark always 0.

    `principal` is the user of the client's certificate.
    """

    __slots__ = (
        "_closing",
        "_eof",
        "_facts",
        "_is_again",
        "_loop",
        "_lost",
        "_paused",
        "_protocol",
        "_socket",
        "_unsent",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, secure: ssl.SSLSocket, protocol: asyncio.BufferedProtocol, principal: str
    ) -> None:
        super().__init__()
        self._facts: dict[str, object] = {"socket": secure, "ssl_object": secure, "principal": principal}
        with suppress(OSError):  # the peer may have left already
            secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as asyncio does: else replies wait for acknowledgements
            self._facts |= {"peername": secure.getpeername(), "sockname": secure.getsockname()}
        self._loop = loop
        self._socket = secure
        self._protocol = protocol
        self._unsent = b""
        self._paused = self._closing = self._eof = self._lost = self._is_again = False
        protocol.connection_made(self)
        if not self._closing:
            loop.add_reader(secure, self._readable)

    # --- the protocol's calls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._facts.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        if not self._paused and not self._closing:
            self._paused = True
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        if self._paused and not self._closing:
            self._paused = False
            if not self._eof:
                self._loop.add_reader(self._socket, self._readable)
                self._read_again()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if self._unsent:
            self._unsent += data
            return
        view = memoryview(data)
        sent = self._send(view)
        if sent < len(view) and not self._lost:
            self._unsent = bytes(view[sent:])
            self._loop.add_writer(self._socket, self._writable)
            self._protocol.pause_writing()

    def close(self) -> None:
        """Close the connection after all data has been sent."""
        if not self._closing:
            self._closing = True
            self._loop.remove_reader(self._socket)
            if not self._unsent:
                self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        """Close the connection at once."""
        self._fail(None)

    # --- socket events

    def _readable(self) -> None:
        left = TURN_BYTES
        while not self._paused and not self._closing and not self._eof:
            buffer = cast(memoryview, self._protocol.get_buffer(-1))
            size = len(buffer)
            filled = self._fill(buffer)
            if filled:
                self._protocol.buffer_updated(filled)
            if self._eof and not self._closing:
                self._loop.remove_reader(self._socket)
                if not self._protocol.eof_received():
                    self.close()
            if filled < size:
                return
            left -= filled
            if left <= 0:
                self._read_again()
                return

    def _fill(self, buffer: memoryview) -> int:
        """Read the available input into `buffer`, one TLS record at a time. Return the number of bytes."""
        filled, size = 0, len(buffer)
        read = self._socket.recv_into
        try:
            while filled < size:
                count = read(buffer[filled:] if filled else buffer)
                if count == 0:
                    self._eof = True
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass  # SSLWantWriteError: the answer to a key update may have to wait; the peer's next bytes arrive soon enough
        except OSError as error:
            if filled:
                self._loop.call_soon(self._readable)  # the input before the error is served first
            else:
                self._fail(error)
        return filled

    def _read_again(self) -> None:
        """Schedule a read of the rest of a TLS record.

        The record was received already, so the socket does not become readable for it.
        """
        if not self._is_again and self._socket.pending():
            self._is_again = True
            self._loop.call_soon(self._again)

    def _again(self) -> None:
        self._is_again = False
        self._readable()

    def _send(self, view: memoryview) -> int:
        """Send bytes, and return the number of bytes that the socket took."""
        sent, size = 0, len(view)
        try:
            while sent < size:
                sent += self._socket.send(view[sent:] if sent else view)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            self._fail(error)
        return sent

    def _writable(self) -> None:
        sent = self._send(memoryview(self._unsent))
        if self._lost:
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._closing:
                self._end(None)
            else:
                self._protocol.resume_writing()

    def _fail(self, error: OSError | None) -> None:
        """Close the connection without a close_notify alert."""
        if not self._lost:
            self._lost = self._closing = True
            self._unsent = b""
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop.call_soon(self._over, error)

    def _end(self, error: OSError | None) -> None:
        """Send a close_notify alert if possible, then close the connection."""
        if not self._lost:
            self._lost = True
            with suppress(OSError, ValueError):
                self._socket.unwrap()
            self._over(error)

    def _over(self, error: OSError | None) -> None:
        self._socket.close()
        self._protocol.connection_lost(error)

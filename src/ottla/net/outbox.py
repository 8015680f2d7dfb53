"""What a connection has yet to send: buffers and slices of files, in order. Knows one transport; knows nothing of messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence

from ottla.ports import Buffer, FileSlice, Part

JOIN_BYTES = 64 * 1024
"""Parts are joined into one write up to this size: copying this much costs less than a system call."""

CHUNK_BYTES = 256 * 1024
"""A slice that the socket does not take at once goes on in chunks of this size: a slow reader costs one chunk of memory."""

FULL_BYTES = 1024 * 1024
"""With more than this unsent, no further request of the connection is begun. Slices do not count: they take no memory."""


class Outbox:
    """Sends parts through an asyncio transport; slices go by `sendfile` where there is no TLS.

    `writable` is what the transport last said. The transport must have its high-water mark at 0.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.writable = True
        self._transport = transport
        self._parts: deque[Part] = deque()
        self._bytes = 0
        self._socket = _descriptor(transport)

    @property
    def full(self) -> bool:
        return not self.writable and (self._bytes > FULL_BYTES or len(self._parts) > 1024)

    @property
    def is_empty(self) -> bool:
        """Whether everything was handed to the transport."""
        return not self._parts

    def put(self, parts: Sequence[Part]) -> None:
        self._parts.extend(parts)
        self._bytes += sum(len(part) for part in parts if not isinstance(part, FileSlice))

    def clear(self) -> None:
        self._parts.clear()
        self._bytes = 0

    def flush(self) -> None:
        """Send as much as the peer takes; nothing once the connection is broken. Raises `StorageFailed` for an unreadable slice."""
        while self._parts and self.writable and not self._transport.is_closing():
            part = self._parts[0]
            if isinstance(part, FileSlice) and part.size > JOIN_BYTES:
                self._parts.popleft()
                self._send_slice(part)
            else:
                self._transport.write(self._gather())

    def _gather(self) -> Buffer:
        """Take the parts at the front, joined up to `JOIN_BYTES`; a larger buffer goes alone and uncopied."""
        gathered: list[Buffer] = []
        size = 0
        while self._parts and size < JOIN_BYTES:
            part = self._parts[0]
            if gathered and size + len(part) > JOIN_BYTES:
                break
            self._parts.popleft()
            if isinstance(part, FileSlice):
                part = part.read()
            else:
                self._bytes -= len(part)
            gathered.append(part)
            size += len(part)
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def _send_slice(self, part: FileSlice) -> None:
        position, left = part.position, part.size
        if self._socket is not None:
            sent = _sendfile(self._socket, part)
            position, left = position + sent, left - sent
        if left:
            size = min(left, CHUNK_BYTES)
            chunk = part.file.read(position, size)
            if left > size:
                self._parts.appendleft(FileSlice(part.file, position + size, left - size))
            self._transport.write(chunk)


def _descriptor(transport: asyncio.Transport) -> int | None:
    """Return the socket's descriptor if bytes may bypass the transport: not under TLS."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    sock: socket.socket | None = transport.get_extra_info("socket")
    return None if tls is not None or sock is None or not hasattr(os, "sendfile") else int(sock.fileno())


def _sendfile(socket: int, part: FileSlice) -> int:
    """Send as much of a slice as the socket takes now; 0 if the file has no descriptor (its bytes are then read and written)."""
    fileno = getattr(part.file, "fileno", None)
    if fileno is None:
        return 0
    sent = 0
    # Whatever stops it, the caller reads and writes the rest: a full socket waits there, a failing disk raises
    # `StorageFailed`, and a broken connection is asyncio's to end.
    with contextlib.suppress(OSError):
        while sent < part.size:
            count = os.sendfile(socket, fileno(), part.position + sent, part.size - sent)
            if count == 0:
                break
            sent += count
    return sent

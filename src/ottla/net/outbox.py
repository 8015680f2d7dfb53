"""What a connection has yet to send: buffers and slices of files, in order. Knows one transport; knows nothing of messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from collections import deque
from collections.abc import Sequence

from ottla.net.pool import Tally
from ottla.ports import Buffer, FileSlice, Part

JOIN_BYTES = 64 * 1024
"""Parts are joined into one write up to this size: copying this much costs less than a system call."""

CHUNK_BYTES = 64 * 1024
"""What the socket does not take at once goes on in chunks of this size: asyncio holds one of them for a slow reader."""

CROWDED_CHUNK_BYTES = 4096
"""The same while all connections together have too much unsent."""

SENT_BYTES = 2 * 1024 * 1024
"""So much of slices is sent at one go: a fast reader of large replies is served beside others."""

FULL_BYTES = 1024 * 1024
"""With more than this unsent, no further request of the connection is begun: nobody may ever read its reply.

While all connections together have too much unsent, one that has anything unsent begins no further request.
"""


class Outbox:
    """Sends parts through an asyncio transport; slices go by `sendfile` where there is no TLS.

    `writable` is what the transport last said. The transport must have its high-water mark at 0. `held` is the size of replies that
    have to wait for those before them. `unsent` counts what all connections hold together.
    """

    def __init__(self, transport: asyncio.Transport, unsent: Tally | None = None) -> None:
        self.writable = True
        self.held = 0
        self.counted = 0
        """What is counted in `unsent` for this connection."""
        self._unsent = Tally(sys.maxsize) if unsent is None else unsent
        self._transport = transport
        self._parts: deque[Part] = deque()
        self._bytes = 0
        self._size = 0
        self._socket = _descriptor(transport)

    @property
    def full(self) -> bool:
        if self.writable and not self.held and self._size <= FULL_BYTES:
            return False
        return self._size + self.held > FULL_BYTES or len(self._parts) > 1024 or self._unsent.is_crowded

    @property
    def is_empty(self) -> bool:
        """Whether everything was handed to the transport."""
        return not self._parts

    def put(self, parts: Sequence[Part]) -> None:
        self._parts.extend(parts)
        for part in parts:
            if isinstance(part, FileSlice):
                self._size += part.size
            else:
                size = len(part)
                self._size += size
                self._bytes += size

    def clear(self) -> None:
        self._parts.clear()
        self._bytes = self._size = self.held = 0
        self._unsent.bytes -= self.counted
        self.counted = 0

    def flush(self, most: int = sys.maxsize) -> bool:
        """Send what the peer takes; nothing once the connection is broken. Raises `StorageFailed` for an unreadable slice.

        Whether the peer would take more than `most` bytes (about), which were sent.
        """
        least = self._size - most
        while self._parts and self.writable and self._size > least and not self._transport.is_closing():
            part = self._parts[0]
            if isinstance(part, FileSlice) and part.size > JOIN_BYTES:
                self._parts.popleft()
                self._send_slice(part)
            else:
                self._transport.write(self._gather())
        if not self.writable or self.held or self.counted:
            self._count()
        return bool(self._parts) and self.writable

    def _count(self) -> None:
        size = self._bytes + self.held + (0 if self.writable else self._transport.get_write_buffer_size())
        self._unsent.bytes += size - self.counted
        self.counted = size

    def _gather(self) -> Buffer:
        """Take the parts at the front, joined up to `JOIN_BYTES`; a larger buffer goes alone and uncopied, a chunk at a time."""
        gathered: list[Buffer] = []
        size = 0
        while self._parts and size < JOIN_BYTES:
            part = self._parts[0]
            part_size = part.size if isinstance(part, FileSlice) else len(part)
            if gathered and size + part_size > JOIN_BYTES:
                break
            self._parts.popleft()
            self._size -= part_size
            if isinstance(part, FileSlice):
                part = part.read()
            else:
                self._bytes -= part_size
            gathered.append(part)
            size += part_size
        if len(gathered) > 1:
            return b"".join(gathered)
        return gathered[0] if size <= CROWDED_CHUNK_BYTES else self._begun(gathered[0])

    def _begun(self, part: Buffer) -> Buffer:
        """The first chunk of a buffer; the rest of it stays in front."""
        chunk_bytes = CROWDED_CHUNK_BYTES if self._unsent.is_crowded else CHUNK_BYTES
        if len(part) <= chunk_bytes:
            return part
        view = memoryview(part)
        self._parts.appendleft(view[chunk_bytes:])
        self._bytes += len(view) - chunk_bytes
        self._size += len(view) - chunk_bytes
        return view[:chunk_bytes]

    def _send_slice(self, part: FileSlice) -> None:
        self._size -= part.size
        position, left = part.position, part.size
        if self._socket is not None:
            most = min(left, SENT_BYTES)
            sent = _sendfile(self._socket, FileSlice(part.file, position, most))
            position, left = position + sent, left - sent
            if left and sent == most:
                self._put_back(FileSlice(part.file, position, left))
                return
        if left:
            size = min(left, CROWDED_CHUNK_BYTES if self._unsent.is_crowded else CHUNK_BYTES)
            chunk = part.file.read(position, size)
            if left > size:
                self._put_back(FileSlice(part.file, position + size, left - size))
            self._transport.write(chunk)

    def _put_back(self, part: FileSlice) -> None:
        self._parts.appendleft(part)
        self._size += part.size


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

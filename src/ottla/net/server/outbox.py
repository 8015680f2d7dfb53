"""The unsent output of a connection: buffers and file slices, in order. The meaning of messages is unknown here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import sys
from collections import deque
from collections.abc import Sequence

from ottla.net.server.buffer_pool import Tally
from ottla.ports import Buffer, FileSlice, Part

JOIN_BYTES = 64 * 1024
"""The size, in bytes, up to which parts are joined for one write, because copying costs less than a system call.

Larger slices of files are not read, but sent by `sendfile`.
"""

MOST_BUFFERS = 512
"""The most buffers of one write to the socket. Linux accepts 1024."""

CHUNK_BYTES = 64 * 1024
"""The size, in bytes, of one write to a socket that does not take everything. asyncio buffers one chunk for a slow reader."""

CROWDED_CHUNK_BYTES = 4096
"""The size, in bytes, of chunks while all connections together exceed the limit on unsent bytes."""

SENT_BYTES = 2 * 1024 * 1024
"""The most bytes of slices sent in one call, so that other connections are served beside a fast reader."""

FULL_BYTES = 1024 * 1024
"""The unsent bytes above which the connection begins no further request, because replies are possibly never read.

While all connections together exceed their limit, any unsent bytes suffice.
"""


class Outbox:
    """The output of one connection.

    Without TLS, it writes to the socket directly, and sends slices by `sendfile`. An asyncio transport sends all other bytes, and
    waits for a full socket.

    `writable`: the transport, whose high-water mark must be 0, accepts writes. `held` is the size, in bytes, of finished replies
    that wait for earlier ones. `unsent` counts the bytes of all connections.
    """

    def __init__(self, transport: asyncio.Transport, unsent: Tally | None = None) -> None:
        self.writable = True
        self.held = 0
        self.counted = 0
        """The number of this connection's bytes that `unsent` counts."""
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
        """Return whether everything was passed to the transport."""
        return not self._parts

    def put(self, parts: Sequence[Part]) -> int:
        """Add parts behind the others, and return their size in bytes."""
        before = self._size
        self._parts.extend(parts)
        for part in parts:
            if isinstance(part, FileSlice):
                self._size += part.size
            else:
                size = len(part)
                self._size += size
                self._bytes += size
        return self._size - before

    def clear(self) -> None:
        self._parts.clear()
        self._bytes = self._size = self.held = 0
        self._unsent.bytes -= self.counted
        self.counted = 0

    def flush(self, most: int = sys.maxsize) -> bool:
        """Send about `most` bytes if the peer takes them. Return whether the peer would take more.

        On a broken connection, send nothing. Raises `StorageFailed` if a slice cannot be read.
        """
        least = self._size - most
        while self._parts and self.writable and self._size > least and not self._transport.is_closing():
            part = self._parts[0]
            if isinstance(part, FileSlice) and part.size > JOIN_BYTES:
                self._parts.popleft()
                self._send_slice(part)
            elif self._socket is None or not self._write_now(self._socket):
                self._transport.write(self._gather())
        if not self.writable or self.held or self.counted:
            self._count()
        return bool(self._parts) and self.writable

    def _count(self) -> None:
        size = self._bytes + self.held + (0 if self.writable else self._transport.get_write_buffer_size())
        self._unsent.bytes += size - self.counted
        self.counted = size

    def _write_now(self, descriptor: int) -> bool:
        """Write buffers from the front to the socket by one call, without copying them. Return whether the socket took them all."""
        first = self._parts[0]
        if type(first) is bytes and len(self._parts) == 1:
            return self._write_one(descriptor, first)
        buffers, size = self._pop_buffers(SENT_BYTES)
        # After an error, asyncio writes the rest: it waits for a full socket, and ends a broken connection.
        with contextlib.suppress(OSError):
            size -= os.writev(descriptor, buffers)
        is_written = not size
        while size:
            last = buffers.pop()
            rest = memoryview(last)[-size:] if len(last) > size else last
            self._put_back(rest)
            size -= len(rest)
        return is_written

    def _write_one(self, descriptor: int, part: bytes) -> bool:
        """Write the only part, as for most replies, in half the time of several. Return whether the socket took it all."""
        try:
            sent = os.write(descriptor, part)
        except OSError:
            return False
        self._size -= sent
        self._bytes -= sent
        self._parts.clear()
        if sent == len(part):
            return True
        self._parts.append(memoryview(part)[sent:])
        return False

    def _pop_buffers(self, most_bytes: int) -> tuple[list[Buffer], int]:
        """Take buffers and small slices from the front, until they have `most_bytes` or more. Return them and their size."""
        buffers: list[Buffer] = []
        size = 0
        while self._parts and size < most_bytes and len(buffers) < MOST_BUFFERS:
            part = self._parts[0]
            if isinstance(part, FileSlice) and part.size > JOIN_BYTES:
                break
            self._parts.popleft()
            self._size -= len(part)
            if isinstance(part, FileSlice):
                part = part.read()
            else:
                self._bytes -= len(part)
            buffers.append(part)
            size += len(part)
        return buffers, size

    def _gather(self) -> Buffer:
        """Take parts from the front, joined up to `JOIN_BYTES`; a larger buffer alone, one chunk at a time without a copy."""
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
        """Return the first chunk of a buffer, and put the rest back to the front."""
        chunk_bytes = CROWDED_CHUNK_BYTES if self._unsent.is_crowded else CHUNK_BYTES
        if len(part) <= chunk_bytes:
            return part
        view = memoryview(part)
        self._put_back(view[chunk_bytes:])
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

    def _put_back(self, part: Part) -> None:
        self._parts.appendleft(part)
        self._size += len(part)
        if not isinstance(part, FileSlice):
            self._bytes += len(part)


def _descriptor(transport: asyncio.Transport) -> int | None:
    """Return the socket's descriptor, to bypass the transport; None under TLS, which must encrypt all bytes."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    sock: socket.socket | None = transport.get_extra_info("socket")
    return None if tls is not None or sock is None or not hasattr(os, "sendfile") else int(sock.fileno())


def _sendfile(socket: int, part: FileSlice) -> int:
    """Send as much of a slice as the socket takes, and return the number of bytes.

    Return 0 if the file has no file descriptor, so that the caller must read and write the bytes.
    """
    fileno = getattr(part.file, "fileno", None)
    if fileno is None:
        return 0
    sent = 0
    # After an error the caller reads and writes the rest. There a full socket waits, a failing disk raises `StorageFailed`, and
    # asyncio ends a broken connection.
    with contextlib.suppress(OSError):
        while sent < part.size:
            count = os.sendfile(socket, fileno(), part.position + sent, part.size - sent)
            if count == 0:
                break
            sent += count
    return sent

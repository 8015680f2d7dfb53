"""The receiving of a large answer in few rounds of the event loop. It works on one transport; frames are unknown here."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress

WAKE_BYTES = 1024 * 1024
"""The bytes of a large answer that must arrive before the system wakes the event loop again."""


class BulkReceiver:
    """A receiver that reads the socket's buffer past the transport, then lets the system wake the loop for large parts only.

    It does nothing where that is impossible (TLS, systems other than Linux): the transport then reads everything.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        possible = sys.platform == "linux" and transport.get_extra_info("ssl_object") is None
        self._socket: socket.socket | None = transport.get_extra_info("socket") if possible else None
        self._wakes_at = 1

    def read(self, buffer: memoryview) -> int:
        """Receive into `buffer` without blocking; return the number of bytes. 0: no bytes now, or the transport has to read."""
        if self._socket is None:
            return 0
        try:
            return os.readv(self._socket.fileno(), [buffer])
        except OSError:
            return 0

    def wake_at(self, missing_bytes: int) -> None:
        """Let the loop sleep until `WAKE_BYTES`, or all `missing_bytes` of an answer, have arrived; 0 means any byte."""
        count = max(1, min(missing_bytes, WAKE_BYTES))
        if count != self._wakes_at and self._socket is not None:
            self._wakes_at = count
            with suppress(OSError):
                # Linux caps this below the receive buffer's capacity, so that it cannot wait without end.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

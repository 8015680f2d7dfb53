"""Receiving a large answer with few rounds of the event loop. Knows one transport; knows nothing of frames."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress

WAKE_BYTES = 1024 * 1024
"""How much of a large answer has to have arrived before the system wakes the event loop again."""


class BulkReceiver:
    """Reads past the transport what is in the socket's buffer already, then has the system wake the loop for large parts only.

    Does nothing where that is impossible (TLS, systems other than Linux): the transport reads everything then.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        possible = sys.platform == "linux" and transport.get_extra_info("ssl_object") is None
        self._socket: socket.socket | None = transport.get_extra_info("socket") if possible else None
        self._wakes_at = 1

    def read(self, buffer: memoryview) -> int:
        """Receive into `buffer` without waiting. 0: there is nothing more now, or the transport has to deal with it."""
        if self._socket is None:
            return 0
        try:
            return os.readv(self._socket.fileno(), [buffer])
        except OSError:
            return 0

    def wake_at(self, missing_bytes: int) -> None:
        """Sleep until `WAKE_BYTES`, or all `missing_bytes` of an answer, are there; 0: until anything is."""
        count = max(1, min(missing_bytes, WAKE_BYTES))
        if count != self._wakes_at and self._socket is not None:
            self._wakes_at = count
            with suppress(OSError):
                # Linux keeps this below what the receive buffer holds, so that it cannot wait for ever.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

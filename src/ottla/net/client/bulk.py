"""The receiving of a large answer in few iterations of the event loop. A receiver works on one transport."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress

WAKE_BYTES = 1024 * 1024
"""The number of bytes of a large answer that must arrive before the system wakes the event loop for them."""


class BulkReceiver:
    """A receiver that reads a socket directly, without its transport. It makes the system wake the event loop for large parts only.

    Where that is impossible (TLS, systems other than Linux), it does nothing, and the transport reads everything.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        possible = sys.platform == "linux" and transport.get_extra_info("ssl_object") is None
        self._socket: socket.socket | None = transport.get_extra_info("socket") if possible else None
        self._wakes_at = 1

    def read(self, buffer: memoryview) -> int:
        """Receive into `buffer` without blocking, and return the number of bytes; 0 also if the transport must read them."""
        if self._socket is None:
            return 0
        try:
            return os.readv(self._socket.fileno(), [buffer])
        except OSError:
            return 0

    def wake_at(self, missing_bytes: int) -> None:
        """Do not wake the loop until `WAKE_BYTES`, or all `missing_bytes` of an answer, have arrived. With 0, any byte wakes it."""
        count = max(1, min(missing_bytes, WAKE_BYTES))
        if count != self._wakes_at and self._socket is not None:
            self._wakes_at = count
            with suppress(OSError):
                # Linux limits this to less than the receive buffer holds, so that the loop is always woken.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

"""Single requests over one connection, for what no client may hide, repeat or get wrong. Knows Ottla's messages and a socket."""

from __future__ import annotations

import socket
from typing import Any

from bench import raw
from ottla.wire.framing import FrameHeader, decode_response, encode_request


class Away(Exception):
    """The broker ended the connection, or there is none to be had."""


class Wire:
    """Connects when it is asked something; whatever goes wrong ends the connection, and the next question makes a new one."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: socket.socket | None = None

    def ask(self, key: int, version: int, body: Any) -> Any:
        """The response's body. Raises `Away`."""
        try:
            if self._connection is None:
                self._connection = raw.connect(self._address)
            self._connection.sendall(b"".join(encode_request(FrameHeader(key, version, 1, "soak"), body)))
            return decode_response(key, version, raw.reply(self._connection))[1]
        except (OSError, EOFError) as ended:
            self.close()
            raise Away(f"{type(ended).__name__}: {ended}") from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

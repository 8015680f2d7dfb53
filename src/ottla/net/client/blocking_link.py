"""One blocking socket to one broker: requests may be pipelined, answers are awaited in order. For one thread.

Knows sockets and `ottla.client.connection`; nothing of what requests mean.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ottla.client.connection import Answer, ClientConnection
from ottla.client.errors import ConnectionFailed, TimedOut
from ottla.net.client.failures import no_connection
from ottla.ports import FileSlice, Part
from ottla.wire.schema import Message

MOST_BUFFERS = 64


class BlockingLink:
    """A connection that is open from construction on. Raises `ConnectionFailed` and `TimedOut`; after either it is closed."""

    def __init__(self, host: str, port: int, client_id: str, request_timeout_ms: int) -> None:
        self._timeout_s = request_timeout_ms / 1000
        self._connection = ClientConnection(client_id)
        self._ready: dict[object, Any] = {}
        self.where = f"{host}:{port}"
        self.closed = False
        try:
            self._socket = socket.create_connection((host, port), timeout=self._timeout_s)
        except OSError as error:
            raise no_connection(self.where, error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        self._write(self._connection.hello(self))
        if not self._connection.greeted(self.wait(self)):
            self._write(self._connection.hello(self, version=0))
            self._connection.greeted(self.wait(self))

    def version(self, api_key: int) -> int:
        """The version in which `api_key` is spoken here, -1 if in none."""
        return self._connection.versions.get(api_key, -1)

    def send(self, api_key: int, body: Message, *, expect: bool = True) -> object:
        """Write a request, return the token to `wait` for. Without `expect` no answer will come."""
        token = object()
        self._write(self._connection.send(api_key, body, token, expect=expect))
        return token

    def ask(self, api_key: int, body: Message) -> Any:
        """The answer to a request. Raises `ConnectionFailed`, `TimedOut`."""
        return self.wait(self.send(api_key, body))

    def wait(self, token: object) -> Any:
        """The answer to one request; those to others that arrive before it are kept."""
        deadline = time.monotonic() + self._timeout_s
        while token not in self._ready:
            self._receive(deadline)
        return self._ready.pop(token)

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            self.close()
            raise TimedOut(f"{self.where} gave no answer within request_timeout_ms={int(self._timeout_s * 1000)}.")
        try:
            self._socket.settimeout(left)
            count = self._socket.recv_into(self._connection.buffer())
        except TimeoutError:
            return
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error
        if not count:
            raise self._broken("the other end closed it")
        try:
            answers: list[Answer] = self._connection.filled(count)
        except ConnectionFailed:
            self.close()
            raise
        self._ready.update(answers)

    def _write(self, parts: Sequence[Part]) -> None:
        if self.closed:
            raise ConnectionFailed(f"The connection to {self.where} is closed.")
        buffers = [memoryview(part.read() if isinstance(part, FileSlice) else part) for part in parts]
        try:
            self._socket.settimeout(self._timeout_s)
            while buffers:
                count = self._socket.sendmsg(buffers[:MOST_BUFFERS])
                while buffers and count >= len(buffers[0]):
                    count -= len(buffers.pop(0))
                if count:
                    buffers[0] = buffers[0][count:]
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error

    def _broken(self, why: str) -> ConnectionFailed:
        self.close()
        return ConnectionFailed(f"The connection to {self.where} broke: {why}.")

    def close(self) -> None:
        self.closed = True
        with suppress(OSError):
            self._socket.close()

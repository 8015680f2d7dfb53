"""A way to a broker on which one request, or the answer to one, gets lost with its connection."""

from __future__ import annotations

import socket
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeAlias

FRAME_LENGTH_BYTES, KEY_BYTES = 4, 2

Work: TypeAlias = Callable[[socket.socket, socket.socket, "deque[bool]"], None]


class LossyWay:
    """Listens on `port`, and passes frames on to a broker that advertises it, once `leads_to` has named the broker's own port."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._broker_port = 0
        self._key: int | None = None
        self._loses_request = False
        self.lost = 0
        self.asked: Counter[int] = Counter()
        """How many requests came, by API key."""
        self._ends: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _begin(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def leads_to(self, port: int) -> None:
        self._broker_port = port

    def lose(self, key: int, *, request: bool) -> None:
        """Lose the next request of this API key before it arrives, or else its answer."""
        self._key, self._loses_request = key, request

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._broker_port))
                except OSError:
                    client.close()
                    continue
                self._ends += client, broker
                lost: deque[bool] = deque()
                for work in (self._requests, self._answers):
                    self._begin(self._until_closed, work, client, broker, lost)

    @staticmethod
    def _until_closed(work: Work, client: socket.socket, broker: socket.socket, lost: deque[bool]) -> None:
        with suppress(OSError, EOFError):
            work(client, broker, lost)
        for end in (client, broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self, client: socket.socket, broker: socket.socket, lost: deque[bool]) -> None:
        """`lost`: for each request on its way, whether its answer gets lost."""
        while True:
            frame = read_frame(client)
            key = int.from_bytes(frame[FRAME_LENGTH_BYTES : FRAME_LENGTH_BYTES + KEY_BYTES], "big")
            self.asked[key] += 1
            chosen = key == self._key
            if chosen:
                self._key = None
                self.lost += 1
                if self._loses_request:
                    return
            lost.append(chosen)
            broker.sendall(frame)

    def _answers(self, client: socket.socket, broker: socket.socket, lost: deque[bool]) -> None:
        while True:
            frame = read_frame(broker)
            if lost.popleft():
                return
            client.sendall(frame)


def read_frame(end: socket.socket) -> bytes:
    """A frame with its length. Raises `EOFError`."""
    length = read_exactly(end, FRAME_LENGTH_BYTES)
    return length + read_exactly(end, int.from_bytes(length, "big"))


def read_exactly(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = end.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data

"""A client of Kafka 0.7 over a socket: frames as they are given, answers in the order of the requests."""

from __future__ import annotations

import socket
import struct
from typing import Self

from ottla.kafka07.wire import (
    RESPONSES,
    FetchRequest07,
    FetchResponse07,
    ProduceRequest07,
    Request,
    decode_response,
    encode_request,
)

PATIENCE_S = 60


def framed(request: Request) -> bytes:
    """A request with its size."""
    frame = encode_request(request)
    return struct.pack(">i", len(frame)) + frame


class Client07:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.socket.close()

    def send(self, *requests: Request) -> None:
        self.socket.sendall(b"".join(map(framed, requests)))

    def produce(self, topic: str, messages: bytes, partition: int = 0) -> None:
        self.send(ProduceRequest07(topic, partition, messages))

    def fetch(self, topic: str, offset: int = 0, partition: int = 0, max_bytes: int = 1 << 20) -> tuple[int, bytes]:
        """(error code, bytes)."""
        request = FetchRequest07(topic, partition, offset, max_bytes)
        self.send(request)
        response = self.response(request)
        return response.error_code, bytes(response.messages)

    def read(self, topic: str, offset: int = 0, partition: int = 0) -> bytes:
        """All there is from an offset on, by as many fetches as it takes."""
        found = bytearray()
        while True:
            error_code, data = self.fetch(topic, offset + len(found), partition)
            assert not error_code
            if not data:
                return bytes(found)
            found += data

    def response(self, request: FetchRequest07) -> FetchResponse07:
        found = decode_response(RESPONSES[type(request)], self.answer())
        assert isinstance(found, FetchResponse07)
        return found

    def answer(self) -> bytes:
        """The next answer, without its size."""
        return self._read(struct.unpack(">i", self._read(4))[0])

    def is_hung_up_on(self) -> bool:
        """Whether the broker closes the connection, and sends nothing before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self.socket.recv(size - len(found))
            assert more, "the broker hung up"
            found += more
        return bytes(found)

"""A broker as a machine, asked in the words of Kafka 0.7: requests as frames without versions, in order."""

from __future__ import annotations

from typing import Any

from ottla.broker.releases import find
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer, Throttled
from ottla.kafka07.broker.dialect import Dialect07
from ottla.kafka07.wire import (
    RESPONSES,
    FetchRequest07,
    FetchResponse07,
    OffsetsRequest07,
    OffsetsResponse07,
    ProduceRequest07,
    Request,
    decode_response,
    encode_request,
)
from tests.support.machine import OpenMachine


class Machine07(OpenMachine):
    """One broker with a listener of this release beside the one of today."""

    def __init__(self, release: str = "0.7", **settings: Any) -> None:
        self._first_dialect = Dialect07()
        super().__init__(**settings)
        self.peer07 = Peer(2, "127.0.0.1", 50001, "127.0.0.1", 9093, release=find(release))

    def begin07(self, frame: bytes) -> Any:
        """Send one request, without its size: the bytes of its answer, None, a `Close`, or the `DelayedReply` of one of these."""
        answer = self.broker.receive(memoryview(bytearray(frame)), self.peer07, self.clock.now())
        self.settle()
        return answer if isinstance(answer, DelayedReply) and not answer.done else self._bytes(answer)

    def send07(self, frame: bytes, *, patience_ms: int = 60_000) -> Any:
        """The same once it is answered."""
        answer = self.begin07(frame)
        for _ in range(patience_ms):
            if not isinstance(answer, DelayedReply):
                return answer
            self.pass_time(1)
            if answer.done:
                return self._bytes(answer)
        raise AssertionError("a request of Kafka 0.7 was not answered")

    def ask07(self, request: Request) -> Any:
        """Send a request; its response, None where there is none, or a `Close`."""
        answer = self.send07(encode_request(request))
        return decode_response(RESPONSES[type(request)], answer) if isinstance(answer, bytes) else answer

    def produce07(self, topic: str, messages: bytes, partition: int = 0) -> Any:
        return self.ask07(ProduceRequest07(topic, partition, messages))

    def fetch07(self, topic: str, offset: int = 0, partition: int = 0, max_bytes: int = 1 << 20) -> tuple[int, bytes]:
        """(error code, bytes)."""
        response = self.ask07(FetchRequest07(topic, partition, offset, max_bytes))
        assert isinstance(response, FetchResponse07), response
        return response.error_code, bytes(response.messages)

    def read07(self, topic: str, partition: int = 0) -> bytes:
        """All there is, by as many fetches as it takes."""
        found = bytearray()
        while True:
            error_code, data = self.fetch07(topic, len(found), partition)
            assert not error_code
            if not data:
                return bytes(found)
            found += data

    def offsets07(self, topic: str, time: int, most: int = 100, partition: int = 0) -> list[int]:
        response = self.ask07(OffsetsRequest07(topic, partition, time, most))
        assert isinstance(response, OffsetsResponse07), response
        assert not response.error_code
        return response.offsets

    def _bytes(self, answer: Any) -> Any:
        answer = answer.answer if isinstance(answer, DelayedReply) else answer
        self.rest_ms = answer.throttle_ms if isinstance(answer, Throttled) else 0
        if isinstance(answer, Throttled):
            answer = answer.parts or None
        if answer is None or isinstance(answer, Close):
            return answer
        frame = b"".join(bytes(part) for part in answer)
        assert int.from_bytes(frame[:4]) == len(frame) - 4, "its size stands before it"
        return frame[4:]

"""The client's end of one connection to a Kafka 0.7 broker: a state machine that translates today's requests and answers.

Requests of 0.7 have no correlation ids: answers come in the order of requests. Produce has no answer, so the client sends another
request after it. The answer to the other request proves that the broker has processed both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.connection.connection import PASSED_ON, Answer, ClientConnection, InFlight
from ottla.client.connection.frames import FrameReader
from ottla.client.connection.versions import FETCH, LIST_OFFSETS, PRODUCE, not_shared
from ottla.client.errors import ConnectionFailed, NotSupported
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.client import requests
from ottla.kafka07.client.requests import Translation
from ottla.ports import Buffer, Part
from ottla.wire import Malformed, Unencodable
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Message

LEAST_FRAME_BYTES: Final = 2
"""The size of the smallest frame, in bytes: an error code."""

CLOSED: Final = (
    " Kafka 0.7 closes the connection instead of returning an error, for example for an invalid message or an unknown topic."
)
UNCONFIRMED: Final = (
    "Kafka 0.7 does not acknowledge records, and the connection closed before they were confirmed: send them again if "
    "duplicates are acceptable. The cause: "
)


@dataclass(slots=True)
class ExpectedAnswer:
    """A request that was sent and waits for one or more answers.

    If `asked` is None, request and answer are passed on untranslated.
    """

    about: InFlight
    asked: Translation | None
    heard: list[Any] = field(default_factory=list)

    def receive(self, frame: Buffer) -> Answer | None:
        """Process a frame; return the translated answer after the last one, else None. Raises `Malformed`."""
        if self.asked is None:
            return Answer(self.about.token, frame)
        self.heard.append(kafka07.decode_response(self.asked.answers[len(self.heard)], frame))
        if len(self.heard) < len(self.asked.answers):
            return None
        return Answer(self.about.token, self.asked.read(self.heard))


class Connection07(ClientConnection):
    """The state machine of a connection to a 0.7 broker. `codec` compresses produced messages."""

    def __init__(self, codec: int = 0) -> None:
        super().__init__(None)
        self.versions = {PRODUCE: 0, FETCH: 0, LIST_OFFSETS: 0}
        self._reader = FrameReader(least_frame_bytes=LEAST_FRAME_BYTES)
        self._codec = codec
        self._expected: deque[ExpectedAnswer] = deque()

    @property
    def unanswered(self) -> Sequence[InFlight]:
        return [each.about for each in self._expected]

    @property
    def has_only_negotiated(self) -> bool:
        return False

    @property
    def why_closed(self) -> str:
        return CLOSED

    def failure(self, sent: InFlight, error: BaseException) -> BaseException:
        """Return the error for a request without an answer. For Produce it is not retriable: the messages are possibly written."""
        if sent.api_key != PRODUCE:
            return error
        unconfirmed = ConnectionFailed(f"{UNCONFIRMED}{error}")
        unconfirmed.retriable = False
        unconfirmed.__cause__ = error
        return unconfirmed

    def send(self, body: Message, token: object, *, expect: bool = True, most: int | None = None) -> list[Part]:
        """Return the buffers to send for today's request `body`. Raises `NotSupported` if 0.7 has no such request."""
        if isinstance(body, FetchRequest):
            asked = requests.fetches(body)
        elif isinstance(body, ProduceRequest):
            asked = requests.produces(body, self._codec, is_confirmed=expect)
        elif isinstance(body, ListOffsetsRequest):
            asked = requests.lookups(body)
        else:
            raise not_shared(body.WIRE.key)
        try:
            parts: list[Part] = [to_frame(request) for request in asked.requests]
        except Unencodable as error:
            raise NotSupported(f"Kafka 0.7 does not support this request: {error}") from error
        if asked.answers:
            self._expected.append(ExpectedAnswer(InFlight(0, body.WIRE.key, 0, token), asked))
        return parts

    def pass_on(self, token: object) -> None:
        self._expected.append(ExpectedAnswer(InFlight(0, PASSED_ON, 0, token), None))

    def receive(self, count: int) -> list[Answer]:
        answers = (self._receive(frame) for frame in self._reader.receive(count))
        return [answer for answer in answers if answer is not None]

    def _receive(self, frame: Buffer) -> Answer | None:
        if not self._expected:
            raise ConnectionFailed("The broker sent a response without a request, so the connection is unusable.")
        try:
            answer = self._expected[0].receive(frame)
        except Malformed as error:
            raise ConnectionFailed(
                f"The broker's response cannot be decoded ({error}): it does not seem to be Kafka 0.7, so leave out api_version."
            ) from error
        if answer is not None:
            self._expected.popleft()
        return answer


def to_frame(request: kafka07.Request) -> bytes:
    """Return a request as a whole frame, including its size. Raises `Unencodable`."""
    data = kafka07.encode_request(request)
    return len(data).to_bytes(4, "big") + data

"""The client's end of one connection, as a state machine: correlation ids, versions, and the request to which each answer belongs.

Requests become buffers to send; received bytes become answers. Brokers answer in order, so any other order means that the stream is
broken.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from ottla.client.connection.frames import FrameReader
from ottla.client.connection.older_brokers import fit, newest
from ottla.client.connection.versions import API_VERSIONS, negotiate, not_shared, release_with, versions_of
from ottla.client.errors import Closed, ConnectionFailed, KafkaError, NotSupported, SettingError, TimedOut, broker_error
from ottla.ports import Buffer, Part
from ottla.version import VERSION
from ottla.wire import Malformed, Unencodable, encode
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.errors import UNSUPPORTED_VERSION
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from ottla.wire.schema import Message

_HELLO_VERSION = 3
"""The version of the first ApiVersions request. Brokers before 3.9 reject version 4, which describes features more fully."""
ADDRESSED_HELLO_VERSION = 5
"""The first version of an ApiVersions request that names the intended broker (KIP-1242, Kafka 4.4)."""


class IntendedBroker(NamedTuple):
    """The cluster and the node id that a client expects at an address. The broker there checks them (KIP-1242)."""

    cluster_id: str | None
    node_id: int


FIELD = re.compile(r"\w+")
"""The name of a message's field, at the start of a path."""

PASSED_ON = -1
"""Marks an `InFlight` request that the caller sent as a whole frame. Its answer is returned as a frame, too."""


class InFlight(NamedTuple):
    """A request that was sent and is not answered yet. `token` is an object of the caller, which is returned with the answer."""

    correlation_id: int
    api_key: int
    version: int
    token: object


AnswerBody: TypeAlias = Any
"""A response message. Static types cannot say more, because the class depends on the request."""


class Answer(NamedTuple):
    """The answer to the request sent with `token`. The class of `body` depends on the API."""

    token: object
    body: AnswerBody


class ClientConnection:
    """The state machine of a client's connection to a broker. `versions` maps API keys to versions.

    `features` are the levels of the cluster's finalized features, by name (KIP-584). With `release`, the versions of that Kafka
    release are used without a request, for brokers without ApiVersions.
    """

    def __init__(self, client_id: str | None, release: str | None = None) -> None:
        self.versions: dict[int, int] = versions_of(release) if release else {}
        self.features: dict[str, int] = {}
        self._client_id = client_id
        self._reader = FrameReader()
        self._sent: deque[InFlight] = deque()
        self._next_id = 0

    @property
    def unanswered(self) -> Sequence[InFlight]:
        return self._sent

    @property
    def has_only_negotiated(self) -> bool:
        """Return whether the only answer so far was the one to ApiVersions, and another request is not answered yet."""
        return self._next_id <= 2 and bool(self._sent) and self._sent[0].api_key != API_VERSIONS

    @property
    def why_closed(self) -> str:
        """Return a likely reason why the broker closed the connection, as text to append to messages; empty if there is none."""
        return ""

    def failure(self, sent: InFlight, error: BaseException) -> BaseException:
        """Return the exception for the request `sent`, which had no answer when `error` ended the connection.

        Each request gets an exception of its own, because callers on several threads add their tracebacks to it.
        """
        return type(error)(*error.args) if isinstance(error, Closed | ConnectionFailed | TimedOut) else error

    def hello(self, token: object, version: int = _HELLO_VERSION, intended: IntendedBroker | None = None) -> list[Part]:
        """Return the buffers of an ApiVersions request, the first on every connection. Pass its answer to `receive_versions`.

        `intended` needs `ADDRESSED_HELLO_VERSION`.
        """
        body = ApiVersionsRequest(client_software_name="ottla", client_software_version=VERSION)
        if intended is not None:
            body.cluster_id, body.node_id = intended
        return self._encode(version, body, token, expect=True)

    def receive_versions(self, body: ApiVersionsResponse) -> bool:
        """Process the answer to the request of `hello`. Return whether the broker understood the request's version.

        If it did not, the broker is older than that version: send `hello(token, version=0)`.
        """
        if body.error_code == UNSUPPORTED_VERSION:
            return False
        if body.error_code:
            raise broker_error(body.error_code, "Requesting the broker's API versions")
        self.versions = negotiate((api.api_key, api.min_version, api.max_version) for api in body.api_keys)
        self.features = {feature.name: feature.max_version_level for feature in body.finalized_features}
        return True

    def send(self, body: Message, token: object, *, expect: bool = True, most: int | None = None) -> list[Part]:
        """Return the buffers of a request, in the highest version that client and broker share, at most version `most`.

        With `expect=False` the broker sends no answer (acks=0). Raises `NotSupported` if there is no shared version, and
        `SettingError` for a value that no version can encode.
        """
        version = self.versions.get(body.WIRE.key)
        if version is None:
            raise not_shared(body.WIRE.key)
        if most is not None:
            version = min(version, most)
        version = newest(version, body)
        fitted = fit(version, body)
        try:
            return self._encode(version, fitted, token, expect=expect)
        except Unencodable as error:
            raise _unsent(fitted, error) from error

    def pass_on(self, token: object) -> None:
        """Register a request that the caller sends as a whole frame. Its answer is returned as a frame without the size field."""
        self._sent.append(InFlight(0, PASSED_ON, 0, token))

    def _encode(self, version: int, body: Message, token: object, *, expect: bool) -> list[Part]:
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        parts = encode_request(FrameHeader(body.WIRE.key, version, self._next_id, self._client_id), body)
        if expect:
            self._sent.append(InFlight(self._next_id, body.WIRE.key, version, token))
        return parts

    def buffer(self) -> memoryview:
        """Return the buffer into which the socket may receive next."""
        return self._reader.buffer()

    @property
    def missing_bytes(self) -> int:
        """Return the number of bytes still missing of a large answer that is being received; 0 between answers."""
        return self._reader.missing_bytes

    def receive(self, count: int) -> list[Answer]:
        """Return the answers that are complete after `count` more bytes in the buffer.

        Raises `ConnectionFailed` for a stream that cannot be read. Close the connection then.
        """
        frames = self._reader.receive(count)
        return [self._answer(frame) for frame in frames] if frames else []

    def _answer(self, frame: Buffer) -> Answer:
        if not self._sent:
            raise ConnectionFailed("The broker sent a response without a request, so the connection is unusable.")
        asked = self._sent.popleft()
        version = asked.version
        if asked.api_key == PASSED_ON:
            return Answer(asked.token, frame)
        if asked.api_key == API_VERSIONS and int.from_bytes(frame[4:6], "big") == UNSUPPORTED_VERSION:
            version = 0
        try:
            correlation_id, body = decode_response(asked.api_key, version, frame)
        except Malformed as error:
            raise ConnectionFailed(f"The broker's response cannot be decoded ({error}), so the connection is unusable.") from error
        if correlation_id != asked.correlation_id:
            raise ConnectionFailed(f"The broker answered request {correlation_id} instead of {asked.correlation_id}.")
        return Answer(asked.token, body)


def _unsent(body: Message, error: Unencodable) -> KafkaError:
    """Return the exception for a body that this version cannot encode.

    Return `NotSupported` if another version can encode the body, otherwise `SettingError`.
    """
    at_fault = FIELD.match(error.path)
    present = next((field.present for field in body.WIRE.fields if at_fault and field.name == at_fault[0]), body.WIRE.valid)
    for version in body.WIRE.valid:
        if version in present:
            with suppress(Unencodable):
                encode(body, version)
                return NotSupported(
                    f"The broker is too old for this request ({error}): use {release_with(body.WIRE.key, version)}."
                )
    return SettingError(f"The request cannot be encoded: {error.path} {error.reason}.")

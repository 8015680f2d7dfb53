"""Quotas applied to requests: the use of each request is recorded with its response, and clients over a quota are throttled.

The response is sent at once with the throttle time, and the connection is then muted (KIP-219). Contains the quota types of
APIs, and does not serve requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from ottla.broker.quotas.client_quotas import Client, ClientQuotas
from ottla.broker.serving.request import NO_REPLY, Answer, Answerable, Close, Encoded, Request, Throttled
from ottla.broker.serving.router import Encode
from ottla.cluster.quotas import CONSUMER_BYTE_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE
from ottla.ports import FileSlice, Part
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.schema import Message

PRODUCE: Final = ProduceRequest.WIRE.key
FETCHES: Final = frozenset({FetchRequest.WIRE.key, ShareFetchRequest.WIRE.key})
BY_KEY: Final = {
    PRODUCE: PRODUCER_BYTE_RATE,
    **dict.fromkeys(FETCHES, CONSUMER_BYTE_RATE),
    CreateTopicsRequest.WIRE.key: CONTROLLER_MUTATION_RATE,
    DeleteTopicsRequest.WIRE.key: CONTROLLER_MUTATION_RATE,
    CreatePartitionsRequest.WIRE.key: CONTROLLER_MUTATION_RATE,
}
"""The quota type of each API, in addition to the request quota."""
THROTTLE_TIME: Final = "throttle_time_ms"
_INT32: Final = Struct(">i")


class Throttling:
    """The encoder of responses that enforces client quotas.

    Without quotas, and for requests that `is_exempt` exempts, it only calls `encode`.
    """

    def __init__(self, quotas: ClientQuotas, encode: Encode, is_exempt: Callable[[Request[Message]], bool]) -> None:
        self._quotas = quotas
        self._encode = encode
        self._is_exempt = is_exempt

    def answer(self, request: Request[Message], reply: Answerable) -> Answer:
        """Return the encoded response, with a throttle time if its client exceeds a quota."""
        if isinstance(reply, Close):
            return reply
        request.peer.is_broker = self._is_exempt(request)
        if request.peer.is_broker:
            return self._encode(request, reply)
        client = Client(request.peer.principal, request.client_id or "")
        request.peer.client_id = client.id
        throttle_ms = self._debt_ms(request, reply, client)
        if throttle_ms:
            reply = set_throttle_time(request, reply, throttle_ms)
        answer = self._encode(request, reply)
        if isinstance(answer, (Close, Throttled)):
            return answer
        parts: Sequence[Part] = answer or ()
        if request.api.key in FETCHES and not (isinstance(reply, (FetchResponse, ShareFetchResponse)) and not reply.responses):
            size = sum(part.size if isinstance(part, FileSlice) else len(part) for part in parts)
            self._quotas.use(CONSUMER_BYTE_RATE, client, size)
        return Throttled(parts, throttle_ms, rests_first=request.release.rests_first) if throttle_ms else answer

    def _debt_ms(self, request: Request[Message], reply: Answerable, client: Client) -> int:
        quotas, key = self._quotas, request.api.key
        throttle_ms = 0 if reply is NO_REPLY else quotas.request_debt_ms(client)
        if key == PRODUCE and not request.is_charged:  # a Produce that is refused later is encoded twice
            request.is_charged = True
            quotas.use(PRODUCER_BYTE_RATE, client, request.size)
        by_key = BY_KEY.get(key)
        return throttle_ms if by_key is None else max(throttle_ms, quotas.debt_ms(by_key, client))


def set_throttle_time(request: Request[Message], reply: Answerable, throttle_ms: int) -> Answerable:
    """Set the throttle time in a reply if its version has the field, and return the reply."""
    if isinstance(reply, Message):
        if hasattr(reply, THROTTLE_TIME):
            setattr(reply, THROTTLE_TIME, throttle_ms)
        return reply
    if isinstance(reply, Encoded):
        here = [field.name for field in request.api.response.WIRE.fields if request.version in field.present]
        first = reply.parts[0] if reply.parts else b""
        if here and here[0] == THROTTLE_TIME and not isinstance(first, FileSlice) and len(first) >= _INT32.size:
            return Encoded([_INT32.pack(throttle_ms) + bytes(first[_INT32.size :]), *reply.parts[1:]])
    return reply

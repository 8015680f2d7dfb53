"""The router of the requests of Kafka 0.6 and 0.7.

A frame is a type and a body. Responses come in the order of requests; some requests have none. Only fetches have error codes:
any other request that cannot be served ends its connection, with a log line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.failures import Changes, Mistake
from ottla.broker.quotas.client_quotas import Client, ClientQuotas
from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.serving.request import Answer, Close, Encoded, Peer, Ready, Throttled
from ottla.cluster.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ottla.kafka07.broker.context import Context07, Request07
from ottla.kafka07.broker.fetch import CODE_BYTES, HEAD, fetch, multi_fetch, offsets
from ottla.kafka07.broker.produce import multi_produce, produce
from ottla.kafka07.wire import (
    UNKNOWN,
    FetchRequest07,
    MultiFetchRequest07,
    MultiProduceRequest07,
    OffsetsRequest07,
    ProduceRequest07,
    Request,
    kind_of,
)
from ottla.ports import Buffer, FileSlice, Now, Steps
from ottla.wire.errors import ERRORS, UNKNOWN_SERVER_ERROR
from ottla.wire.faults import Malformed

SERVED: Final[dict[type[Request], Callable[[Context07, Request07], Steps[Ready]]]] = {
    ProduceRequest07: produce,
    FetchRequest07: fetch,
    MultiFetchRequest07: multi_fetch,
    MultiProduceRequest07: multi_produce,
    OffsetsRequest07: offsets,
}
PRODUCES: Final = (ProduceRequest07, MultiProduceRequest07)
FETCHES: Final = (FetchRequest07, MultiFetchRequest07)


class Router07:
    """The entry for requests of 0.7 clients. It serves one request at a time, and returns an answer or a delayed reply."""

    def __init__(self, context: Context07, changes: Changes, quotas: ClientQuotas) -> None:
        self._context = context
        self._changes = changes
        self._quotas = quotas
        self._at_hand: type[Request] | None = None

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve one request (the bytes after its size). Return its answer, or a delayed reply that completes later."""
        self._at_hand, self._changes.made = None, False
        try:
            kind = self._at_hand = kind_of(frame)
        except Malformed as malformed:
            return Close(str(malformed))
        asked = Request07(kind, frame if owned else bytearray(frame), peer, now)
        # Producers of 0.7 send and disconnect. Their requests are served to the end even then.
        run = partial(self._context.parts.purgatory.run, _begun(self._context, asked), to_the_end=kind in PRODUCES)
        reply = self._changes.attempt(run)
        if isinstance(reply, DelayedReply):
            reply.encode_with(partial(self._encode_reply, asked))
            return reply
        assert isinstance(reply, Ready), "no steps of 0.7 return what waits"
        return self._encode_reply(asked, reply)

    def refuse(self, error_code: int, sentence: str) -> Answer:
        """Return the answer to the last received request with an error code. If its API has no error code, close the connection."""
        return [_failed_fetch()] if self._at_hand is FetchRequest07 else Close(sentence)

    def _encode_reply(self, asked: Request07, reply: Ready) -> Answer:
        """Encode a completed reply, or return the close of the connection."""
        if isinstance(reply, Mistake):
            self._changes.report(reply.error, f"{asked.peer}: {asked}", asked.frame)
            self._at_hand = asked.kind
            return self.refuse(UNKNOWN_SERVER_ERROR, ERRORS[UNKNOWN_SERVER_ERROR].sentence)
        if isinstance(reply, Close):
            return reply
        answer: Answer = list(reply.parts) if isinstance(reply, Encoded) else None
        return self._throttle(asked, answer) if self._quotas.is_on else answer

    def _throttle(self, asked: Request07, answer: Answer) -> Answer:
        """Return the answer, throttled by the principal's quotas. 0.7 has neither a client id nor a field for the throttle time."""
        quotas, client = self._quotas, Client(asked.peer.principal, "")
        throttle_ms = quotas.request_debt_ms(client)
        parts = list(answer) if isinstance(answer, list) else []
        if asked.kind in PRODUCES:
            quotas.use(PRODUCER_BYTE_RATE, client, len(asked.frame))
            throttle_ms = max(throttle_ms, quotas.debt_ms(PRODUCER_BYTE_RATE, client))
        elif asked.kind in FETCHES:
            quotas.use(CONSUMER_BYTE_RATE, client, sum(len(part) for part in parts if not isinstance(part, FileSlice)))
            throttle_ms = max(throttle_ms, quotas.debt_ms(CONSUMER_BYTE_RATE, client))
        return Throttled(parts, throttle_ms, rests_first=True) if throttle_ms else answer


def _begun(context: Context07, asked: Request07) -> Steps[Reply]:
    return (yield from SERVED[asked.kind](context, asked))


def _failed_fetch() -> bytes:
    """Return a fetch response without messages, with error code -1 (unknown)."""
    return HEAD.pack(CODE_BYTES, UNKNOWN)

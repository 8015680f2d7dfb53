"""The exchange of SASL tokens: tokens in, responses out, CPU work in workers, delayed rejections.

Depends on frames, delayed replies and workers, and not on mechanisms. Imported with the first listener that has SASL.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from struct import Struct

from ottla.broker.long_checks import LongChecks
from ottla.broker.security.authentication import GSSAPI, Authentication
from ottla.broker.serving.purgatory import Begun, DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import NO_REPLY, Answer, Close, Encoded, Peer, Ready, Request
from ottla.cluster.names import printable
from ottla.ports import Buffer, Now, Steps
from ottla.sasl.mechanism import Authenticated, Challenge, Computed, Rejected
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

KEY = Struct(">h")
SIZE = Struct(">i")
MOST_API_KEY = 1000
"""An upper bound of API keys. A frame with a larger key is a GSSAPI token, whose first byte is 0x60."""

Outcome = Challenge | Authenticated | Rejected
Telling = Callable[[Outcome, int], Ready]
"""Returns the response to a token from its outcome and the session lifetime in ms."""


class LoginExchange:
    """The responses to the tokens of all connections that authenticate."""

    def __init__(self, purgatory: Purgatory, checks: LongChecks) -> None:
        self._purgatory = purgatory
        self._checks = checks

    def hold(self, authentication: Authentication, frame: Buffer, peer: Peer, now: Now) -> Answer | DelayedReply:
        """Return the response to a SASL token, or to a frame that is not allowed before authentication.

        Return None if the frame may be served as a request.
        """
        if authentication.is_open(now.mono_ms):
            return None
        if authentication.accepts_bare_tokens:
            return self._bare(authentication, bytes(frame), peer, now)
        (key,) = KEY.unpack_from(frame) if len(frame) >= KEY.size else (-1,)
        if authentication.accepts_first_tokens and not 0 <= key <= MOST_API_KEY:
            authentication.handshake(GSSAPI, now, is_bare=True)
            return self._bare(authentication, bytes(frame), peer, now)
        objection = authentication.objection(key, now)
        if objection is not None:
            return self._keep(self.refuse(peer, Rejected(objection), now))
        return None

    def token(self, request: Request[Message], data: bytes, tell: Telling) -> Reply:
        """Respond to the token of a SaslAuthenticate request."""
        return self._process(request.peer, data, request.now, tell)

    def refuse(self, peer: Peer, rejected: Rejected, now: Now, last: Message | None = None) -> Begun:
        """Close a connection after a delay, which slows down password guessing. `last` is sent before the close."""
        assert peer.authentication is not None, "others are not refused"
        close = Close(f"it did not authenticate: {rejected.cause}", last=last)
        delay_ms = peer.authentication.sasl.failed_delay_ms
        return close if delay_ms <= 0 else DelayedOperation((), now.mono_ms + delay_ms, lambda now, expired: close)

    def _process(self, peer: Peer, data: bytes, now: Now, tell: Telling) -> Begun:
        authentication = peer.authentication
        assert authentication is not None, "others send no tokens"
        step = authentication.step(data, now)
        if isinstance(step, Computed):
            return self._purgatory.run(self._compute(step, peer, tell))
        return self._finish(step, peer, now, tell)

    def _compute(self, step: Computed, peer: Peer, tell: Telling) -> Steps[Reply]:
        outcome = yield from self._checks.run(_alone(step))
        return self._finish(outcome, peer, self._purgatory.now(), tell)

    def _finish(self, step: Outcome, peer: Peer, now: Now, tell: Telling) -> Begun:
        authentication = peer.authentication
        assert authentication is not None, "others send no tokens"
        outcome, lifetime_ms = authentication.apply_step(step, now)
        answer = tell(outcome, lifetime_ms)
        if isinstance(outcome, Rejected):
            return self.refuse(peer, outcome, now, answer if isinstance(answer, Message) else None)
        if isinstance(outcome, Authenticated):
            peer.principal = f"User:{outcome.name}"
            log.debug("%s logged in as %s", peer, printable(peer.principal))
        return answer

    def _bare(self, authentication: Authentication, data: bytes, peer: Peer, now: Now) -> Answer | DelayedReply:
        """Respond to a token in a frame without a request header."""
        return self._keep(self._process(peer, data, now, _bare_answer))

    def _keep(self, reply: Begun) -> Answer | DelayedReply:
        if isinstance(reply, DelayedReply):
            reply.encode_with(_as_it_is)
            return reply
        return self._purgatory.watch(reply, _as_it_is) if isinstance(reply, DelayedOperation) else _as_it_is(reply)


def _alone(step: Computed) -> Generator[int, None, Outcome]:
    """Run a computation as a generator with one step that needs no memory, for `LongChecks`."""
    yield 0
    return step.work()


def _bare_answer(outcome: Outcome, lifetime_ms: int) -> Ready:
    return NO_REPLY if isinstance(outcome, Rejected) else Encoded([SIZE.pack(len(outcome.data)) + outcome.data])


def _as_it_is(reply: Ready) -> Answer:
    if isinstance(reply, Encoded):
        return reply.parts
    return reply if isinstance(reply, Close) else Close("its login could not be served")

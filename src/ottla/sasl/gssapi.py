"""GSSAPI (RFC 4752), which is Kerberos. Both sides establish a security context, then agree not to protect messages with it.

TLS can protect messages instead. The module imports no Kerberos library. Each side gets its context as an argument, and calls on a
context can take long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ottla.sasl.mechanism import Authenticated, Challenge, Computed, Rejected, SaslFailed, Step

NAME: Final = "GSSAPI"
NO_LAYER: Final = 1
"""The bit for "no security layer", in the offer and the answer. As in Kafka, no other layer is supported."""
OFFER: Final = bytes([NO_LAYER, 0, 0, 0])
OFFER_BYTES: Final = 4


class SecurityFailed(Exception):
    """The Kerberos library refused. The message is one sentence, for the broker's log or the client's user."""


class SecurityContext(Protocol):
    """One side of a security context. Each call can raise `SecurityFailed`."""

    def step(self, token: bytes) -> bytes:
        """Process the peer's token, and return the token to send, which can be empty.

        The initiator's first step processes an empty token.
        """

    @property
    def is_complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """Return the principal of the initiator, as name/host@REALM."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


class GssapiServer:
    """The server's side of a GSSAPI login. `accept` returns a new context for an acceptor.

    `short_name` returns the user's name for a Kerberos principal, or None if no rule matches.
    """

    def __init__(self, accept: Callable[[], SecurityContext], short_name: Callable[[str], str | None]) -> None:
        self._accept = accept
        self._short_name = short_name
        self._context: SecurityContext | None = None
        self._has_offered = False

    def step(self, data: bytes, wall_ms: int) -> Step:
        def work() -> Challenge | Authenticated | Rejected:
            try:
                return self._process(data)
            except SecurityFailed as failure:
                return Rejected(str(failure))

        return Computed(work)

    def _process(self, data: bytes) -> Challenge | Authenticated | Rejected:
        if self._context is None:
            self._context = self._accept()
        context = self._context
        if self._has_offered:
            return self._finish(context.unwrap(data), context.initiator)
        if not context.is_complete:
            token = context.step(data)
            if token or not context.is_complete:
                return Challenge(token)
        elif data:
            return Rejected("it sent more than its Kerberos context needs")
        self._has_offered = True
        return Challenge(context.wrap(OFFER))

    def _finish(self, answer: bytes, principal: str) -> Authenticated | Rejected:
        """Return the outcome after the client's choice of a security layer.

        The bytes after the choice are an authorization id; kafka-python sends the broker's name. They are ignored, because as in
        Kafka no client acts as another user.
        """
        if len(answer) < OFFER_BYTES or answer[0] != NO_LAYER:
            return Rejected("it chose a security layer that was not offered")
        name = self._short_name(principal)
        if name is None:
            return Rejected(f"no rule of sasl.kerberos.principal.to.local.rules matches {principal}")
        return Authenticated(name)


class GssapiClient:
    """The client's side of a GSSAPI login. `context` is the context of an initiator for the broker's service."""

    def __init__(self, context: SecurityContext) -> None:
        self._context = context
        self._has_chosen = False

    def step(self, challenge: bytes) -> bytes | None:
        """Process the server's message, and return the message to send, or None at the end.

        A call blocks while tickets are fetched. Raises `SaslFailed`.
        """
        try:
            return self._process(challenge)
        except SecurityFailed as failure:
            raise SaslFailed(str(failure)) from failure

    def _process(self, challenge: bytes) -> bytes | None:
        if self._has_chosen:
            return None
        if not self._context.is_complete:
            return self._context.step(challenge)
        offer = self._context.unwrap(challenge)
        if len(offer) != OFFER_BYTES or not offer[0] & NO_LAYER:
            raise SaslFailed("The broker requires a SASL security layer, which is not supported: use security_protocol=SASL_SSL.")
        self._has_chosen = True
        return self._context.wrap(OFFER + self._context.initiator.encode())

"""SaslHandshake and SaslAuthenticate: the steps of a login (KIP-43, KIP-152, KIP-368).

On a listener without SASL, and after a login that does not expire, both APIs are refused with ILLEGAL_SASL_STATE. After version 0
of SaslHandshake, tokens are frames without a header. From version 1 on, tokens are SaslAuthenticate requests, whose version 1 has
session lifetimes.
"""

from __future__ import annotations

from ottla.broker.security.login_exchange import Outcome
from ottla.broker.security.logins import Logins
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Ready, Request
from ottla.broker.serving.routes import serves
from ottla.sasl.mechanism import Rejected
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.errors import ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM

PLAINTEXT = "This listener has no SASL: connect with security.protocol=PLAINTEXT, or SSL if it has TLS."
OPEN = "The login is over already: send SaslAuthenticate only after SaslHandshake."


@serves(SaslHandshakeRequest)
def sasl_handshake(request: Request[SaslHandshakeRequest], logins: Logins) -> Reply:
    authentication = request.peer.authentication
    if authentication is None or not authentication.may_begin(request.now):
        return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE)
    mechanisms = sorted(authentication.mechanisms)
    rejected = authentication.handshake(request.body.mechanism, request.now, is_bare=request.version == 0)
    if rejected is None:
        return SaslHandshakeResponse(mechanisms=mechanisms)
    last = SaslHandshakeResponse(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
    return logins.exchange.refuse(request.peer, rejected, request.now, last)


@serves(SaslAuthenticateRequest)
def sasl_authenticate(request: Request[SaslAuthenticateRequest], logins: Logins) -> Reply:
    authentication = request.peer.authentication
    if authentication is None or not authentication.is_under_way:
        sentence = PLAINTEXT if authentication is None else OPEN
        return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=sentence)

    def respond(outcome: Outcome, lifetime_ms: int) -> Ready:
        if isinstance(outcome, Rejected):
            sentence = authentication.sentence(outcome)
            return SaslAuthenticateResponse(error_code=SASL_AUTHENTICATION_FAILED, error_message=sentence)
        return SaslAuthenticateResponse(error_message=None, auth_bytes=outcome.data, session_lifetime_ms=lifetime_ms)

    return logins.exchange.token(request, bytes(request.body.auth_bytes), respond)

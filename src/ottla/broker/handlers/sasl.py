"""SaslHandshake and SaslAuthenticate on a listener that asks nobody who he is: they come at a wrong time, and are told so."""

from __future__ import annotations

from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.errors import ILLEGAL_SASL_STATE


@serves(SaslHandshakeRequest)
def sasl_handshake(request: Request[SaslHandshakeRequest]) -> Reply:
    return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE)


@serves(SaslAuthenticateRequest)
def sasl_authenticate(request: Request[SaslAuthenticateRequest]) -> Reply:
    sentence = "This listener asks nobody to authenticate: connect with security.protocol=PLAINTEXT."
    return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=sentence)

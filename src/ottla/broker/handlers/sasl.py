"""SaslHandshake and SaslAuthenticate on a listener that asks nobody who he is: they come at a wrong time, and are told so."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeResponse
from ottla.wire.errors import ILLEGAL_SASL_STATE


def handle_sasl_handshake(broker: Broker, request: Request) -> Reply:
    return SaslHandshakeResponse(error_code=ILLEGAL_SASL_STATE)


def handle_sasl_authenticate(broker: Broker, request: Request) -> Reply:
    sentence = "This listener asks nobody to authenticate: connect with security.protocol=PLAINTEXT."
    return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=sentence)


HANDLERS: Handlers = {17: (range(2), handle_sasl_handshake), 36: (range(3), handle_sasl_authenticate)}

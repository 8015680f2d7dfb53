"""Envelope (API key 58): a broker forwards a client's request to the controller. KIP-590."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, since


class EnvelopeRequest(Message, key=58, valid="0", flexible="0+"):
    """A client's request that a broker forwards to the controller, with the client's principal and address."""

    request_data: bytes = since()
    request_principal: bytes | None = since()
    client_host_address: bytes = since()


class EnvelopeResponse(Message, key=58, valid="0", flexible="0+"):
    """The controller's response to a forwarded request, as bytes."""

    response_data: bytes | None = since(default=None)
    error_code: i16 = since()

"""SaslHandshake (API key 17): the SASL mechanism that a connection will use.

After version 0 the tokens follow as bytes with a size but no header; after version 1 they follow in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, since


class SaslHandshakeRequest(Message, key=17, valid="0-1"):
    """A client's request to log in with a SASL mechanism."""

    mechanism: str = since()


class SaslHandshakeResponse(Message, key=17, valid="0-1"):
    """The answer to a SaslHandshake request: the SASL mechanisms that the broker supports, and an error code."""

    error_code: i16 = since()
    mechanisms: list[str] = since()

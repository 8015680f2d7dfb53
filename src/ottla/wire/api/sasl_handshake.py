"""SaslHandshake (API key 17): …"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, message, since


@message(key=17, valid="0-1")
class SaslHandshakeRequest(Message):
    """Request."""

    mechanism: str = since()


@message(key=17, valid="0-1")
class SaslHandshakeResponse(Message):
    """Response."""

    error_code: i16 = since()
    mechanisms: list[str] = since()

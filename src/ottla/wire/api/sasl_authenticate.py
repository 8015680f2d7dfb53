"""SaslAuthenticate (API key 36): …"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i64, message, since


@message(key=36, valid="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    """Request."""

    auth_bytes: bytes = since()


@message(key=36, valid="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    """Response."""

    error_code: i16 = since()
    error_message: str | None = since()
    auth_bytes: bytes = since()
    session_lifetime_ms: i64 = since("1+", ignorable=True)

"""SaslAuthenticate (API key 36): one step of authentication. KIP-152. Version 1 adds the session's lifetime (KIP-368)."""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i64, since


class SaslAuthenticateRequest(Message, key=36, valid="0-2", flexible="2+"):
    """The next message of the client in a SASL exchange, as the mechanism encodes it."""

    auth_bytes: bytes = since()


class SaslAuthenticateResponse(Message, key=36, valid="0-2", flexible="2+"):
    """The broker's next message in a SASL exchange, or an error code."""

    error_code: i16 = since()
    error_message: str | None = since()
    auth_bytes: bytes = since()
    session_lifetime_ms: i64 = since("1+", ignorable=True)
